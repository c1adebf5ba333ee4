package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed take.lua
var takeSource string

// Lines of take.lua between which the clock is read.
const (
	prologueBegin = "-- prologue:"
	prologueEnd   = "-- end of prologue"
)

// script is a Lua script known to Redis by the hash of its text.
type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
	return script{source: source, sha: hex.EncodeToString(sum[:])}
}

// withPrologue is the script's source with other lines in place of those that
// read the clock.
func withPrologue(source, lines string) string {
	before, rest, _ := strings.Cut(source, prologueBegin)
	_, after, _ := strings.Cut(rest, prologueEnd)
	return before + lines + after
}

// run runs the script once. Only Redis' explicit word that it does not know the
// script, so that nothing was executed, leads to a load and one more attempt.
func (s script) run(ctx context.Context, client redis.UniversalClient, keys []string, args ...any) (any, error) {
	answer, err := client.EvalSha(ctx, s.sha, keys, args...).Result()
	if !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return answer, err
	}
	return s.loadAndRun(ctx, client, keys, args...)
}

// loadAndRun sends both commands in one write, so that hardly anything can come
// between them: not even scripts that are flushed all the time.
func (s script) loadAndRun(ctx context.Context, client redis.UniversalClient, keys []string, args ...any) (any, error) {
	var loaded *redis.StringCmd
	var answer *redis.Cmd
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		loaded = p.ScriptLoad(ctx, s.source)
		answer = p.EvalSha(ctx, s.sha, keys, args...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load script: %w", err)
	}
	if sha := loaded.Val(); sha != s.sha {
		return nil, fmt.Errorf("load script: %w: hash %q", errReply, sha)
	}
	return answer.Result()
}
