package feed

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
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
	filling atomic.Pointer[string]
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
	k := []string{p.keys.policyHead(), p.keys.policyBody(s.Version), p.keys.bell()}
	result, err := publishScript.Run(ctx, p.cfg.Client, k,
		s.Version, s.Digest, s.Parent, s.Signer, base64.StdEncoding.EncodeToString(s.Signature), s.Issued.UnixMicro(),
		s.Body, rand.Text(), p.keys.policyBodyPrefix(), keptBodies, over).Text()
	if err != nil {
		return "", fmt.Errorf("publish version %d: %w", s.Version, err)
	}
	return result, nil
}

// PutRecords writes records in their order and returns the place after the
// last. A record that Redis already has, or has a newer one of, is passed over:
// the place covers that one too. Epoch is "" while the directory is being filled.
func (p *Publisher) PutRecords(ctx context.Context, records []policy.SignedRecord) (policy.Place, error) {
	var place policy.Place
	for first := true; first || len(records) > 0; first = false {
		n := min(len(records), recordsPerCall)
		var err error
		if place, err = p.putRecords(ctx, records[:n]); err != nil {
			return policy.Place{}, fmt.Errorf("put %d directory records: %w", n, err)
		}
		records = records[n:]
	}
	return place, nil
}

func (p *Publisher) putRecords(ctx context.Context, records []policy.SignedRecord) (policy.Place, error) {
	k := []string{p.keys.directoryHead(), p.keys.directoryChanges(), p.keys.bell()}
	args := []any{longestStream}
	for _, r := range records {
		k = append(k, p.keys.record(r.Kind, r.ID))
		args = append(args, string(r.Kind), r.ID, r.Seq, ttlOf(r).Milliseconds(), r.Encode())
	}
	reply, err := recordScript.Run(ctx, p.cfg.Client, k, args...).StringSlice()
	if err != nil {
		return policy.Place{}, err
	}
	if len(reply) != 3 {
		return policy.Place{}, fmt.Errorf("script answered %d values, not 3", len(reply))
	}
	seq, err := strconv.ParseInt(reply[1], 10, 64)
	if err != nil {
		return policy.Place{}, fmt.Errorf("read change number: %w", err)
	}
	return policy.Place{Epoch: reply[0], Seq: seq}, nil
}

// ttlOf lets records go some time after they became final: from then on they
// say no more than their absence does.
func ttlOf(r policy.SignedRecord) time.Duration {
	var body struct {
		State string `json:"state"`
	}
	if json.Unmarshal(r.Body, &body) != nil {
		return 0
	}
	final := body.State == string(policy.KeyRevoked) || body.State == string(policy.KeyExpired)
	if r.Kind == policy.RecordTenant {
		final = body.State == string(policy.TenantDeleted)
	}
	if final {
		return recordTTL
	}
	return 0
}

// State says what is in Redis; the zero State when nothing is.
func (p *Publisher) State(ctx context.Context) (policy.FeedState, error) {
	pipe := p.cfg.Client.Pipeline()
	head := pipe.HMGet(ctx, p.keys.policyHead(), "epoch", "version", "digest")
	directory := pipe.HMGet(ctx, p.keys.directoryHead(), "epoch", "seq")
	if _, err := pipe.Exec(ctx); err != nil {
		return policy.FeedState{}, fmt.Errorf("read feed state: %w", err)
	}
	s := policy.FeedState{
		PolicyEpoch: text(head, 0),
		Version:     number(head, 1),
		Digest:      text(head, 2),
		Directory:   policy.Place{Epoch: text(directory, 0), Seq: number(directory, 1)},
	}
	if s.Version == 0 {
		return s, nil
	}
	n, err := p.cfg.Client.Exists(ctx, p.keys.policyBody(s.Version)).Result()
	if err != nil {
		return policy.FeedState{}, fmt.Errorf("look for body of version %d: %w", s.Version, err)
	}
	s.BodyMissing = n == 0
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
