package feed

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
)

const (
	// maxBody is the largest document; a longer one is not fetched whole.
	maxBody     = 8 << 20
	bodyTimeout = 5 * time.Second
	// maxVersion is the largest number that Redis' Lua counts exactly.
	maxVersion = 1 << 53
	// retryMendable is how long an offer is left alone whose body could be mended
	// in place. Any other that was refused stays refused: its head would have to
	// change before the verdict could.
	retryMendable = time.Second
)

// head is what Redis offers, as text that is not believed yet.
type head struct {
	offer policy.SignedPolicy // without Body
	epoch string
	raw   string // everything, to tell one offer from another
}

// refusal remembers an offer that cannot be used, so that a large document is
// not examined on each poll.
type refusal struct {
	raw   string
	until time.Time // zero: for good
}

func (r refusal) covers(h head, now time.Time) bool {
	return r.raw == h.raw && (r.until.IsZero() || now.Before(r.until))
}

// stampSeen is the newest stamp with a good signature.
type stampSeen struct {
	raw     string // that was looked at last, good or not
	version int64
	digest  string
	issued  time.Time
}

// poll looks at Redis once and takes what is new.
func (w *Watcher) poll(ctx context.Context) pace {
	w.takePulled(ctx)
	callCtx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	reply, err := watchScript.RunRO(callCtx, w.cfg.Client, []string{w.keys.policyHead(), w.keys.policyStamp(), w.keys.policyCanary()}, w.canaryTag).StringSlice()
	if err == nil && len(reply) != 11 {
		err = fmt.Errorf("script answered %d values, not 11", len(reply))
	}
	w.noteContact(ctx, err)
	if err != nil {
		return hasty
	}
	w.takeStamp(ctx, reply[8])
	w.takeCanary(ctx, reply[9], reply[10])
	switch reply[0] {
	case "none":
		return hasty // lost, or not yet published: keep what there is
	case "bad":
		w.refuse(ctx, 0, policy.NACKInvalid, "the head in Redis is not what a console writes")
		return calm
	}
	h, err := decodeHead(reply[1:8])
	if err != nil {
		w.refuse(ctx, h.offer.Version, policy.NACKInvalid, err.Error())
		return calm
	}
	return w.decide(ctx, h, w.canary, nil)
}

// decodeHead reads version, digest, parent, signer, signature, issued and epoch.
func decodeHead(f []string) (head, error) {
	h := head{raw: strings.Join(f, "\n"), epoch: f[6]}
	version, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil || version < 1 || version > maxVersion {
		return h, fmt.Errorf("head: version %q is not a number from 1 to 2^53", f[0])
	}
	h.offer = policy.SignedPolicy{Version: version, Digest: f[1], Parent: f[2], Signer: f[3]}
	if h.offer.Signature, err = base64.StdEncoding.DecodeString(f[4]); err != nil {
		return h, fmt.Errorf("head: signature: %w", err)
	}
	if issued, err := strconv.ParseInt(f[5], 10, 64); err == nil {
		h.offer.Issued = time.UnixMicro(issued).UTC()
	}
	return h, nil
}

// consider holds the order of docs/redis.md: marks first, then the body.
func (w *Watcher) consider(ctx context.Context, h head) pace {
	if c := w.current.Load(); c != nil && c.Version == h.offer.Version && c.Digest == h.offer.Digest {
		w.confirm(ctx, c, h.offer)
		return calm
	}
	if code, detail := w.checkMarks(h.offer); code != "" {
		w.refuse(ctx, h.offer.Version, code, detail)
		return calm
	}
	if w.tried.covers(h, w.cfg.Now()) {
		return calm
	}
	if h.offer.Body == nil {
		if wait := w.ration.take(time.Now()); wait > 0 {
			return pace(wait)
		}
		spread(ctx, w.cfg.Spread)
		body, err := w.fetchBody(ctx, h.offer.Version)
		if err != nil {
			w.noteContact(ctx, err)
			return hasty
		}
		h.offer.Body = body
	}
	snapshot, code, detail := w.examine(h.offer)
	if code != "" {
		w.refuse(ctx, h.offer.Version, code, detail)
		return w.setAside(h, code)
	}
	w.enforce(ctx, snapshot, h.offer)
	return calm
}

// setAside says when an offer that was refused is looked at again.
func (w *Watcher) setAside(h head, code string) pace {
	switch code {
	case policy.NACKMissingBody:
		return hasty // the console is putting it back
	case policy.NACKBadDigest, policy.NACKTooLarge:
		w.tried = refusal{raw: h.raw, until: w.cfg.Now().Add(retryMendable)}
	default:
		w.tried = refusal{raw: h.raw}
	}
	return calm
}

// confirm deals with an offer of the version in force. It may have been signed
// anew, because the key is being rotated: then the copy on disk must not keep
// the old signature, or it is worth nothing once the old key is gone.
func (w *Watcher) confirm(ctx context.Context, c *Snapshot, offer policy.SignedPolicy) {
	if !bytes.Equal(offer.Signature, w.signature) || offer.Parent != c.Parent {
		offer.Body = c.Body
		if err := policy.VerifyPolicy(w.cfg.PublicKeys, w.cfg.Deployment, offer); err != nil {
			w.refuse(ctx, offer.Version, policy.NACKBadSignature, "of the version in force: "+err.Error())
			return
		}
		w.save(ctx, copyOf(offer, c.Since))
		w.signature = offer.Signature
	}
	w.accepted(ctx)
}

// checkMarks refuses what would lead back. The version in force itself is not
// an offer: consider has dealt with it.
func (w *Watcher) checkMarks(p policy.SignedPolicy) (code, detail string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	floor := max(w.mark.Version, w.stamp.version)
	if p.Version < floor {
		return policy.NACKWentBack, fmt.Sprintf("Redis offers version %d; version %d was seen before", p.Version, floor)
	}
	if p.Version == w.mark.Version && w.mark.Digest != "" && p.Digest != w.mark.Digest {
		return policy.NACKConflict, fmt.Sprintf("version %d was %s and is offered as %s", p.Version, w.mark.Digest, p.Digest)
	}
	return "", ""
}

// fetchBody returns nil when there is none, and one byte more than the limit
// when it is too large.
func (w *Watcher) fetchBody(ctx context.Context, version int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, bodyTimeout)
	defer cancel()
	body, err := w.cfg.Client.GetRange(ctx, w.keys.policyBody(version), 0, maxBody).Bytes()
	if err != nil && isReply(err) {
		return nil, nil // WRONGTYPE: no body there
	}
	if err != nil {
		return nil, fmt.Errorf("fetch body of version %d: %w", version, err)
	}
	return body, nil
}

// examine turns a version into something to enforce, or says with a NACK code
// why it is none. It is the same for Redis and for the disk.
func (w *Watcher) examine(p policy.SignedPolicy) (s *Snapshot, code, detail string) {
	switch {
	case len(p.Body) == 0:
		return nil, policy.NACKMissingBody, fmt.Sprintf("there is no body of version %d", p.Version)
	case len(p.Body) > maxBody:
		return nil, policy.NACKTooLarge, fmt.Sprintf("the body of version %d is over %d bytes", p.Version, maxBody)
	case policy.DigestOf(p.Body) != p.Digest:
		return nil, policy.NACKBadDigest, fmt.Sprintf("the body of version %d has digest %s, not %s", p.Version, policy.DigestOf(p.Body), p.Digest)
	}
	if err := policy.VerifyPolicy(w.cfg.PublicKeys, w.cfg.Deployment, p); err != nil {
		return nil, policy.NACKBadSignature, err.Error()
	}
	if v := apiVersionOf(p.Body); v != policy.APIVersion {
		return nil, policy.NACKTooNew, fmt.Sprintf("this build knows apiVersion %q, not %q", policy.APIVersion, v)
	}
	doc, report := policy.Parse(p.Body)
	if !report.OK() {
		return nil, codeOf(report), shorten(report.Error())
	}
	compiled, err := policy.Compile(doc)
	if err != nil {
		return nil, policy.NACKInvalid, shorten(err.Error())
	}
	return &Snapshot{Version: p.Version, Digest: p.Digest, Parent: p.Parent, Compiled: compiled, Body: p.Body}, "", ""
}

func apiVersionOf(body []byte) string {
	var d struct {
		APIVersion string `json:"apiVersion"`
	}
	if json.NewDecoder(bytes.NewReader(body)).Decode(&d) != nil {
		return policy.APIVersion // not JSON at all: Parse says what is wrong
	}
	return d.APIVersion
}

// codeOf tells a document that a newer console may write from one that is wrong.
func codeOf(r policy.Report) string {
	if r.TooNew() {
		return policy.NACKTooNew
	}
	return policy.NACKInvalid
}

// shorten keeps a NACK small enough for a heartbeat.
func shorten(s string) string {
	const most = 500
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " …"
}

// takeStamp believes a stamp with a good signature that is not older than the
// one before.
func (w *Watcher) takeStamp(ctx context.Context, raw string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if raw == "" || raw == w.stamp.raw {
		return
	}
	w.stamp.raw = raw
	var s policy.Stamp
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		w.cfg.Log.WarnContext(ctx, "unreadable policy stamp", "error", err)
		return
	}
	if err := policy.VerifyStamp(w.cfg.PublicKeys, w.cfg.Deployment, s); err != nil {
		w.cfg.Log.WarnContext(ctx, "policy stamp refused", "error", err)
		return
	}
	if s.Version > maxVersion || !s.Issued.After(w.stamp.issued) {
		return
	}
	w.stamp.version, w.stamp.digest, w.stamp.issued = max(w.stamp.version, s.Version), s.Digest, s.Issued
}
