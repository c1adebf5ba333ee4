package console

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/headgate/headgate/policy"
)

const (
	// refusedEvery is how often the audit trail tells of refusals of one kind to
	// one person: a program that tries again and again must not fill it.
	refusedEvery = time.Minute
	refusedKept  = 1000
)

// refusals remembers which refused publications were told of late.
type refusals struct {
	mu   sync.Mutex
	told map[refusal]time.Time
}

type refusal struct {
	actor string
	code  Code
}

// first reports whether a refusal is to be told now.
func (r *refusals) first(of refusal, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, ok := r.told[of]; ok && now.Sub(last) < refusedEvery {
		return false
	}
	if r.told == nil || len(r.told) >= refusedKept {
		r.told = map[refusal]time.Time{} // it costs some rows more
	}
	r.told[of] = now
	return true
}

type refusedView struct {
	Base     int64  `json:"base_version,omitempty"`
	Rollback int64  `json:"rollback_of,omitempty"`
	Draft    string `json:"draft,omitempty"`
	Digest   string `json:"digest,omitempty"`
	Code     string `json:"code"`
}

// noteRefusal tells the audit trail that somebody who may publish tried to and
// was kept from it by a newer version or by missing approvals:
// nothing was changed, and whoever reads the trail should know of it.
func (s *Policies) noteRefusal(ctx context.Context, actor Actor, p publication, pre prepared, err error) {
	var e *Error
	if p.scheduled != nil { // that is told by its suspension
		return
	}
	if !asError(err, &e) || (e.Code != CodeConflict && e.Code != CodeApproval) || !s.refused.first(refusal{actor.ID, e.Code}, s.d.Now()) {
		return
	}
	view := refusedView{Base: max(p.base, 0), Rollback: p.rollbackOf, Draft: p.draft.ID, Code: string(e.Code)}
	if pre.body != nil {
		view.Digest = policy.DigestOf(pre.body)
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		return s.d.record(ctx, tx, actor, s.d.now(), event{
			action: "policy.refused", object: "policy", objectID: strconv.FormatInt(view.Base, 10), after: view, reason: shorten(e.Public, maxReason),
		})
	})
	if err != nil {
		s.d.Log.WarnContext(ctx, "a refused publication is not in the audit trail", "error", err)
	}
}
