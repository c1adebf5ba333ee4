package feed

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/headgate/headgate/policy"
)

// PutCanary offers a version to the replicas that its record names; for all
// others nothing changes. The result is published, same (nothing to do) or
// went-back (the head, or another canary, has this version or a higher one).
func (p *Publisher) PutCanary(ctx context.Context, s policy.SignedPolicy, c policy.Canary) (string, error) {
	raw, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode canary of version %d: %w", c.Version, err)
	}
	k := []string{p.keys.policyHead(), p.keys.policyCanary(), p.keys.policyBody(s.Version), p.keys.bell()}
	result, err := canaryScript.Run(ctx, p.cfg.Client, k, s.Version, raw, c.Tag(), s.Body, p.keys.policyBodyPrefix()).Text()
	if err != nil {
		return "", fmt.Errorf("offer version %d to a canary: %w", s.Version, err)
	}
	return result, nil
}

// DropCanary takes back whatever offer there is. Replicas that have taken it
// keep it: they wait for a higher version.
func (p *Publisher) DropCanary(ctx context.Context) error {
	if err := p.cfg.Client.Del(ctx, p.keys.policyCanary()).Err(); err != nil {
		return fmt.Errorf("drop canary: %w", err)
	}
	return nil
}

// ReadPolicy returns the version that Redis offers, as it stands there, the zero
// SignedPolicy when there is none. Nothing of it is verified.
func (p *Publisher) ReadPolicy(ctx context.Context) (policy.SignedPolicy, error) {
	h, _, err := p.watch(ctx)
	if err != nil {
		return policy.SignedPolicy{}, fmt.Errorf("read head: %w", err)
	}
	if h.offer.Version == 0 {
		return policy.SignedPolicy{}, nil
	}
	body, err := p.cfg.Client.GetRange(ctx, p.keys.policyBody(h.offer.Version), 0, maxBody).Bytes()
	if err != nil && !isReply(err) {
		return policy.SignedPolicy{}, fmt.Errorf("read body of version %d: %w", h.offer.Version, err)
	}
	h.offer.Body = body
	return h.offer, nil
}

// canaryFresh is how old a canary's record may be when a replica takes it. The
// console renews it every minute; clocks may be some minutes apart. One that is
// older is left alone, which keeps the version that all others have.
const canaryFresh = 10 * time.Minute

// takeCanary keeps the newest record of a canary that has a good signature.
func (w *Watcher) takeCanary(ctx context.Context, tag, raw string) {
	if tag == "" {
		w.canaryTag, w.canary = "", nil
		return
	}
	if raw == "" {
		return // as it was
	}
	w.canaryTag, w.canary = tag, nil
	c, err := w.readCanary([]byte(raw))
	if err != nil {
		w.cfg.Log.WarnContext(ctx, "canary refused", "error", err)
		return
	}
	w.canary = &c
}

func (w *Watcher) readCanary(raw []byte) (policy.Canary, error) {
	var c policy.Canary
	if err := json.Unmarshal(raw, &c); err != nil {
		return policy.Canary{}, fmt.Errorf("read canary: %w", err)
	}
	return c, policy.VerifyCanary(w.cfg.PublicKeys, w.cfg.Deployment, c)
}

// canaryBeside is the canary's version as an offer, when it is meant for this
// replica and stands beside the given head; nil when it does not. One that was
// signed for another head says nothing here: it has ended.
func (w *Watcher) canaryBeside(c *policy.Canary, base policy.SignedPolicy) *head {
	if c == nil || !c.Names(w.cfg.Replica) || c.Version > maxVersion || c.Base != base.Version || c.Parent != base.Digest {
		return nil
	}
	taken := false
	if cur := w.current.Load(); cur != nil {
		taken = cur.Version == c.Version && cur.Digest == c.Digest
	}
	if age := w.cfg.Now().Sub(c.Issued); !taken && (age > canaryFresh || age < -canaryFresh) {
		return nil
	}
	return &head{offer: c.Policy(), raw: "canary\n" + base64.StdEncoding.EncodeToString(c.TrialSignature)}
}

// decide takes what of a head and the canary beside it is meant for this
// replica. A replica that is behind the head follows it first, so that a canary
// that cannot be used leaves it with what the others have.
//
// Body is that of the canary's version; nil has it fetched from Redis.
func (w *Watcher) decide(ctx context.Context, h head, c *policy.Canary, body []byte) pace {
	offer := w.canaryBeside(c, h.offer)
	if offer == nil {
		return w.consider(ctx, h)
	}
	offer.offer.Body = body
	if cur := w.current.Load(); cur == nil || cur.Version < h.offer.Version {
		if p := w.consider(ctx, h); p == hasty {
			return p
		}
	}
	if cur := w.current.Load(); cur == nil || cur.Version < h.offer.Version {
		return calm // the head was refused, and the NACK says why
	}
	return w.consider(ctx, *offer)
}
