package feed

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/policy"
)

const (
	keptBodies     = 8
	longestStream  = 10_000
	recordsPerCall = 200 // keeps one script below a millisecond or two
	recordTTL      = 30 * 24 * time.Hour
)

// ErrFillLost means that Redis lost the directory between BeginDirectory and
// FinishDirectory, or that another console began again: start over.
var ErrFillLost = errors.New("directory was lost while it was being filled")

// Publisher is the console's end of the wire. It is safe for concurrent use,
// except that one filling of the directory at a time is the caller's business.
type Publisher struct {
	cfg     Config
	keys    keys
	filling atomic.Pointer[filling]

	inspecting sync.Mutex
	inspected  map[string]inspected // by server
}

// NewPublisher checks cfg and lists everything that is wrong with it.
func NewPublisher(cfg Config) (*Publisher, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("feed publisher: %w", err)
	}
	return &Publisher{cfg: cfg, keys: keys{cfg.Namespace}}, nil
}

// PublishPolicy writes a version and rings the bell. The result is published,
// same (nothing to do, or a lost body put back), went-back (Redis has a higher
// version) or conflict (the same version with another digest); the last two
// have changed nothing.
func (p *Publisher) PublishPolicy(ctx context.Context, s policy.SignedPolicy) (string, error) {
	return p.publish(ctx, s, false)
}

// RestorePolicy is PublishPolicy that also writes over the same version with
// another digest: for a console that knows its version to be the right one, when
// somebody else has written to Redis. A higher version there is an error.
func (p *Publisher) RestorePolicy(ctx context.Context, s policy.SignedPolicy) error {
	result, err := p.publish(ctx, s, true)
	if err == nil && result == "went-back" {
		err = fmt.Errorf("restore version %d: Redis has a higher one", s.Version)
	}
	return err
}

func (p *Publisher) publish(ctx context.Context, s policy.SignedPolicy, over bool) (string, error) {
	k := []string{p.keys.policyHead(), p.keys.policyBody(s.Version), p.keys.bell(), p.keys.policyCanary()}
	result, err := publishScript.Run(ctx, p.cfg.Client, k,
		s.Version, s.Digest, s.Parent, s.Signer, base64.StdEncoding.EncodeToString(s.Signature), s.Issued.UnixMicro(),
		s.Body, rand.Text(), p.keys.policyBodyPrefix(), keptBodies, over).Text()
	if err != nil {
		return "", fmt.Errorf("publish version %d: %w", s.Version, err)
	}
	return result, nil
}

// State says what is in Redis; the zero State when nothing is.
func (p *Publisher) State(ctx context.Context) (policy.FeedState, error) {
	pipe := p.cfg.Client.Pipeline()
	head := pipe.HMGet(ctx, p.keys.policyHead(), "epoch", "version", "digest")
	canary := pipe.HMGet(ctx, p.keys.policyCanary(), "version", "tag")
	directory := pipe.HMGet(ctx, p.keys.directoryHead(), "epoch", "seq", "servers")
	if _, err := pipe.Exec(ctx); err != nil && !isReply(err) {
		return policy.FeedState{}, fmt.Errorf("read feed state: %w", err)
	}
	s := policy.FeedState{
		PolicyEpoch: text(head, 0),
		Version:     number(head, 1),
		Digest:      text(head, 2),
		Directory:   policy.Place{Epoch: text(directory, 0), Seq: number(directory, 1)},
		Compared:    text(directory, 2),
		Canary:      number(canary, 0),
		CanaryTag:   text(canary, 1),
	}
	if s.Version > 0 {
		n, err := p.cfg.Client.Exists(ctx, p.keys.policyBody(s.Version)).Result()
		if err != nil {
			return policy.FeedState{}, fmt.Errorf("look for body of version %d: %w", s.Version, err)
		}
		s.BodyMissing = n == 0
	}
	s.Servers = p.servers(ctx)
	return s, nil
}

// text is one value of an HMGET, "" when the field is absent.
func text(c *redis.SliceCmd, i int) string {
	if v := c.Val(); i < len(v) {
		s, _ := v[i].(string)
		return s
	}
	return ""
}

// number is one value of an HMGET, 0 when it is absent or no number.
func number(c *redis.SliceCmd, i int) int64 {
	n, err := strconv.ParseInt(text(c, i), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// PutStamp says that a version is still the newest.
func (p *Publisher) PutStamp(ctx context.Context, s policy.Stamp) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode stamp: %w", err)
	}
	if err := p.cfg.Client.Set(ctx, p.keys.policyStamp(), raw, 0).Err(); err != nil {
		return fmt.Errorf("put stamp: %w", err)
	}
	return nil
}

// Now is Redis' clock, in UTC.
func (p *Publisher) Now(ctx context.Context) (time.Time, error) {
	t, err := p.cfg.Client.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("ask Redis for the time: %w", err)
	}
	return t.UTC(), nil
}

// Ping measures one round trip.
func (p *Publisher) Ping(ctx context.Context) (time.Duration, error) {
	start := time.Now() // elapsed time, not the time of day
	if err := p.cfg.Client.Ping(ctx).Err(); err != nil {
		return 0, fmt.Errorf("ping Redis: %w", err)
	}
	return time.Since(start), nil
}
