package feed

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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
	return p.publish(ctx, s, "")
}

// RestorePolicy is PublishPolicy that also writes over a head with the same
// version or a higher one, as long as it is the given foreign one: for a console
// that knows its version to be the right one, when somebody else has written to
// Redis. Any other head in its way is an error.
func (p *Publisher) RestorePolicy(ctx context.Context, s, foreign policy.SignedPolicy) error {
	result, err := p.publish(ctx, s, strconv.FormatInt(foreign.Version, 10)+" "+foreign.Digest)
	if err == nil && (result == "went-back" || result == "conflict") {
		err = fmt.Errorf("restore version %d: Redis has another one by now", s.Version)
	}
	return err
}

// publish writes a version. over is "version digest" of a head that it may be
// written over in spite of its number.
func (p *Publisher) publish(ctx context.Context, s policy.SignedPolicy, over string) (string, error) {
	k := []string{p.keys.policyHead(), p.keys.policyBody(s.Version), p.keys.bell(), p.keys.policyCanary()}
	result, err := publishScript.Run(ctx, p.cfg.Client, k,
		s.Version, s.Digest, s.Parent, s.Signer, base64.StdEncoding.EncodeToString(s.Signature), s.Issued.UnixMicro(),
		s.Body, rand.Text(), p.keys.policyBodyPrefix(), keptBodies, over).Text()
	if err != nil {
		return "", fmt.Errorf("publish version %d: %w", s.Version, err)
	}
	return result, nil
}

// State says what is in Redis; the zero State when nothing is. A head that no
// console can have written is none.
func (p *Publisher) State(ctx context.Context) (policy.FeedState, error) {
	h, tag, err := p.watch(ctx)
	if err != nil {
		return policy.FeedState{}, fmt.Errorf("read feed state: %w", err)
	}
	directory, err := placeScript.RunRO(ctx, p.cfg.Client, []string{p.keys.directoryHead()}).StringSlice()
	if err != nil || len(directory) != 3 {
		return policy.FeedState{}, fmt.Errorf("read place of the directory, %d values: %w", len(directory), err)
	}
	s := policy.FeedState{
		PolicyEpoch: h.epoch,
		Version:     h.offer.Version,
		Digest:      h.offer.Digest,
		Directory:   policy.Place{Epoch: directory[0], Seq: number(directory[1])},
		Compared:    directory[2],
		CanaryTag:   tag,
	}
	canary, _, _ := strings.Cut(tag, "-")
	s.Canary = number(canary)
	if s.BodyMissing, err = p.bodyMissing(ctx, s.Version); err != nil {
		return policy.FeedState{}, err
	}
	if s.CanaryBodyMissing, err = p.bodyMissing(ctx, s.Canary); err != nil {
		return policy.FeedState{}, err
	}
	s.Servers = p.servers(ctx)
	return s, nil
}

// watch reads head and the tag of the canary as gateways do: nothing larger
// than a console writes leaves Redis.
func (p *Publisher) watch(ctx context.Context) (h head, tag string, err error) {
	reply, err := watchScript.RunRO(ctx, p.cfg.Client, []string{p.keys.policyHead(), p.keys.policyStamp(), p.keys.policyCanary()}, "").StringSlice()
	if err != nil {
		return head{}, "", err
	}
	if len(reply) != 11 {
		return head{}, "", fmt.Errorf("script answered %d values, not 11", len(reply))
	}
	if reply[0] == "head" {
		h = looseHead(reply[1:8])
	}
	return h, reply[9], nil
}

// looseHead is decodeHead for a console, which also has to deal with a head that
// it did not write: what cannot be read is left out.
func looseHead(f []string) head {
	version := number(f[0])
	h, err := decodeHead(f)
	if err != nil {
		h.offer = policy.SignedPolicy{Version: max(version, 0), Digest: f[1], Parent: f[2], Signer: f[3]}
	}
	return h
}

func (p *Publisher) bodyMissing(ctx context.Context, version int64) (bool, error) {
	if version <= 0 {
		return false, nil
	}
	n, err := p.cfg.Client.Exists(ctx, p.keys.policyBody(version)).Result()
	if err != nil {
		return false, fmt.Errorf("look for body of version %d: %w", version, err)
	}
	return n == 0, nil
}

// number is 0 for a text that is no number.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
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
