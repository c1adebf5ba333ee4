package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by SHA-1
	_ "embed"
	"encoding/hex"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// The scripts' texts are constants: nothing that anybody sends becomes part of
// one. They are put together from files, because a script cannot call another.
var (
	//go:embed clock.lua
	clockSource string
	//go:embed lone.lua
	loneSource string
	//go:embed rows.lua
	rowsSource string
	//go:embed counts.lua
	countsSource string
	//go:embed plain.lua
	plainSource string
	//go:embed full.lua
	fullSource string
	//go:embed amend.lua
	amendSource string
)

// scripts are what the Store asks of Redis.
type scripts struct {
	plain script // decides requests that are charges alone
	full  script // decides any
	amend script // corrects, renews and releases
}

func newScripts(change func(source string) string) scripts {
	return scripts{
		plain: newScript(change(clockSource + loneSource + rowsSource + plainSource)),
		full:  newScript(change(clockSource + rowsSource + countsSource + fullSource)),
		amend: newScript(change(clockSource + rowsSource + countsSource + amendSource)),
	}
}

// script is a Lua script known to Redis by the hash of its text.
type script struct{ source, sha string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
	return script{source: source, sha: hex.EncodeToString(sum[:])}
}

// once is a command that is never sent again when nobody knows whether it was
// executed. A client of a Cluster would otherwise repeat it after a time-out or
// a lost connection; it still follows MOVED and ASK, which say that nothing was.
type once struct{ *redis.Cmd }

// NoRetry forbids it.
func (once) NoRetry() bool { return true }

// evalSHA is the command that runs the script on the keys.
func (s *script) evalSHA(ctx context.Context, keys [][]string, args ...any) once {
	words := make([]any, 0, 3+len(keys[0])+len(keys[1])+len(keys[2])+len(args))
	words = append(words, "evalsha", s.sha, 0)
	for _, part := range keys {
		for i := range part {
			words = append(words, &part[i]) // a pointer is boxed without an allocation
		}
	}
	words[2] = len(words) - 3
	if len(words) > 3 {
		words[3] = firstKey(keys) // a Cluster's client finds the slot by it, and reads no pointers
	}
	cmd := redis.NewCmd(ctx, append(words, args...)...)
	cmd.SetFirstKeyPos(3)
	return once{cmd}
}

// run runs the script once. Only Redis' explicit word that it does not know the
// script, so that nothing was executed, leads to a load and one more attempt.
func (s *script) run(ctx context.Context, client redis.UniversalClient, keys [][]string, args ...any) (string, error) {
	cmd := s.evalSHA(ctx, keys, args...)
	err := client.Process(ctx, cmd)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd, err = s.loadAndRun(ctx, client, keys, args...)
	}
	if err != nil {
		return "", err
	}
	answer := cmd.Val()
	text, ok := answer.(string)
	if !ok {
		return "", fmt.Errorf("%w: %T", errReply, answer)
	}
	return text, nil
}

// loadAndRun sends both commands in one write, so that hardly anything can come
// between them: not even scripts that are flushed all the time. In a Cluster it
// sends them to the node that has the keys.
func (s *script) loadAndRun(ctx context.Context, client redis.UniversalClient, keys [][]string, args ...any) (once, error) {
	cluster, is := client.(*redis.ClusterClient)
	if !is {
		return s.pipelined(ctx, client.Pipeline(), keys, args...)
	}
	node, err := cluster.MasterForKey(ctx, firstKey(keys))
	if err != nil {
		return once{}, fmt.Errorf("load script: %w", err)
	}
	cmd, err := s.pipelined(ctx, node.Pipeline(), keys, args...)
	if !redis.HasErrorPrefix(err, "MOVED") && !redis.HasErrorPrefix(err, "ASK") {
		return cmd, err
	}
	// The keys have gone to another node, and nothing was executed.
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		return node.ScriptLoad(ctx, s.source).Err()
	})
	if err != nil {
		return once{}, fmt.Errorf("load script: %w", err)
	}
	cmd = s.evalSHA(ctx, keys, args...)
	return cmd, client.Process(ctx, cmd)
}

func (s *script) pipelined(ctx context.Context, pipe redis.Pipeliner, keys [][]string, args ...any) (once, error) {
	loaded, cmd := pipe.ScriptLoad(ctx, s.source), s.evalSHA(ctx, keys, args...)
	_ = pipe.Process(ctx, cmd)
	_, err := pipe.Exec(ctx)
	switch {
	case err != nil:
		return once{}, fmt.Errorf("load script: %w", err)
	case loaded.Val() != s.sha:
		return once{}, fmt.Errorf("load script: %w: hash %q", errReply, loaded.Val())
	}
	return cmd, nil
}

func firstKey(keys [][]string) string {
	for _, part := range keys {
		if len(part) > 0 {
			return part[0]
		}
	}
	return ""
}
