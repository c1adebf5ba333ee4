package feed

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
)

// writeRaw puts a version into Redis as an attacker with write access could:
// no script, no bell. Change may alter the head's fields.
func (r *rig) writeRaw(p policy.SignedPolicy, change map[string]any) {
	r.t.Helper()
	head := map[string]any{
		"version": p.Version, "digest": p.Digest, "parent": p.Parent, "signer": p.Signer,
		"signature": base64.StdEncoding.EncodeToString(p.Signature), "issued": p.Issued.UnixMicro(), "epoch": "e",
	}
	for k, v := range change {
		head[k] = v
	}
	pipe := r.client.TxPipeline()
	pipe.Del(r.t.Context(), "hg:{policy}:head")
	if p.Body != nil {
		pipe.Set(r.t.Context(), fmt.Sprintf("hg:{policy}:body:%d", p.Version), p.Body, 0)
	}
	pipe.HSet(r.t.Context(), "hg:{policy}:head", head)
	if _, err := pipe.Exec(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// forgeries are offers that must not be used, each with the code it earns.
func (r *rig) forgeries() map[string]struct {
	p      policy.SignedPolicy
	change map[string]any
	code   string
} {
	type forgery = struct {
		p      policy.SignedPolicy
		change map[string]any
		code   string
	}
	good := r.signed(9, 70)
	body := func(b []byte, version int64) policy.SignedPolicy {
		return policy.SignPolicy(r.key, deployment, version, "", b, time.Now())
	}
	alter := func(f func(*policy.SignedPolicy)) policy.SignedPolicy {
		p := good
		f(&p)
		return p
	}
	flipped := bytes.Clone(good.Body)
	flipped[len(flipped)/2] ^= 1
	return map[string]forgery{
		"lower version":          {r.signed(4, 70), nil, policy.NACKWentBack},
		"same version, other":    {r.signed(5, 70), nil, policy.NACKConflict},
		"no body":                {alter(func(p *policy.SignedPolicy) { p.Body = nil }), nil, policy.NACKMissingBody},
		"bit flipped":            {alter(func(p *policy.SignedPolicy) { p.Body = flipped }), nil, policy.NACKBadDigest},
		"other body, its digest": {alter(func(p *policy.SignedPolicy) { p.Body, p.Digest = document(1e6), policy.DigestOf(document(1e6)) }), nil, policy.NACKBadSignature},
		"other key":              {policy.SignPolicy(key('x'), deployment, 9, "", document(70), time.Now()), nil, policy.NACKBadSignature},
		"other deployment":       {policy.SignPolicy(r.key, "staging", 9, "", document(70), time.Now()), nil, policy.NACKBadSignature},
		"signed as version 8":    {alter(func(p *policy.SignedPolicy) { p.Signature = r.signed(8, 70).Signature }), nil, policy.NACKBadSignature},
		"other parent":           {good, map[string]any{"parent": "sha256:00"}, policy.NACKBadSignature},
		"signature empty":        {good, map[string]any{"signature": ""}, policy.NACKBadSignature},
		"signature no base64":    {good, map[string]any{"signature": "%%"}, policy.NACKInvalid},
		"version 2^63":           {good, map[string]any{"version": "9223372036854775808"}, policy.NACKInvalid},
		"version -1":             {good, map[string]any{"version": "-1"}, policy.NACKInvalid},
		"fields empty":           {good, map[string]any{"version": "", "digest": ""}, policy.NACKInvalid},
		"field of 1 MiB":         {good, map[string]any{"digest": strings.Repeat("x", 1<<20)}, policy.NACKInvalid},
		"too new":                {body([]byte(`{"apiVersion":"headgate/v2"}`), 9), nil, policy.NACKTooNew},
		"unknown field":          {body(bytes.Replace(good.Body, []byte(`{`), []byte(`{"antigravity":1,`), 1), 9), nil, policy.NACKTooNew},
		"no document":            {body([]byte(`hello`), 9), nil, policy.NACKInvalid},
		"no routes":              {body([]byte(`{"apiVersion":"headgate/v1"}`), 9), nil, policy.NACKInvalid},
		"over 8 MiB":             {body(bytes.Repeat([]byte(" "), maxBody+1), 9), nil, policy.NACKTooLarge},
	}
}

func TestWatcher_RefusesWhatItCannotUseAndGoesOn(t *testing.T) {
	t.Parallel()
	shared := newRig(t)
	for name, f := range shared.forgeries() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.publish(5, 60)
			w := r.watcher(t.TempDir(), often)
			start(t, w.Run)
			w.untilVersion(t, 5)
			r.writeRaw(f.p, f.change)
			nack := w.untilNACK(t, f.code)
			if nack.Detail == "" || len(nack.Detail) > 600 || nack.Since.IsZero() {
				t.Errorf("NACK is %+v", nack)
			}
			w.untilPolled(t)
			if got := w.Status().NACK; got == nil || *got != nack {
				t.Errorf("the NACK does not stay: %+v", got)
			}
			if w.Current().Version != 5 || w.Current().Digest != policy.DigestOf(document(60)) {
				t.Errorf("version %d is in force", w.Current().Version)
			}
			// The cure: what was in force is offered again, or something newer.
			r.do("DEL", "hg:{policy}:head")
			if result, err := r.pub.PublishPolicy(t.Context(), r.signed(10, 80)); err != nil || result != "published" {
				t.Fatal(result, err)
			}
			w.untilVersion(t, 10)
			w.untilNoNACK(t)
		})
	}
}

func TestWatcher_UnreadableHeadIsReportedAndHarmless(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publish(5, 60)
	w := r.watcher("", often)
	start(t, w.Run)
	w.untilVersion(t, 5)
	r.do("SET", "hg:{policy}:head", "hello")
	w.untilNACK(t, policy.NACKInvalid)
	if w.version() != 5 {
		t.Fatal("the version in force is gone")
	}
	if _, err := r.pub.PublishPolicy(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	w.untilNoNACK(t)
}

func TestWatcher_ALostBodyIsTakenAsSoonAsItIsBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.enforcing(t, 5, often)
	p := r.signed(6, 61)
	bare := p
	bare.Body = nil
	r.writeRaw(bare, nil)
	w.untilNACK(t, policy.NACKMissingBody)
	if _, err := r.pub.PublishPolicy(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	w.untilVersion(t, 6)
}
