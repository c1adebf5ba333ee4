package gateway

import (
	"log/slog"
	"sync"
	"time"

	"github.com/headgate/headgate/policy"
)

// caller is what the limits of a request need to know of who is calling: the
// tenant's plan with its quota, and what is the tenant's own. It is empty on
// routes that know no tenant.
type caller struct {
	plan  []policy.CompiledLimit
	quota *policy.CompiledQuota // nil: none
	terms
	user callerUser
}

// terms are what a tenant record says besides its plan.
type terms struct {
	overrides *policy.Overrides // nil: none
	grants    policy.Grants     // nil: none
	zone      *time.Location    // nil: the quota's
	anchor    time.Time         // zero: none
}

// maxTerms bounds the tenants whose terms are kept compiled. Only tenants that
// have any count; beyond it one is compiled anew.
const maxTerms = 10_000

// termsBook keeps the terms of tenants compiled, as long as their records stay
// the same.
type termsBook struct {
	mu      sync.RWMutex
	entries map[string]termsEntry
	log     *slog.Logger
}

type termsEntry struct {
	zone, anchor string
	overrides    []policy.Override
	grants       []policy.Grant
	terms        terms
}

func newTermsBook(log *slog.Logger) *termsBook {
	return &termsBook{entries: map[string]termsEntry{}, log: log}
}

// of reads the terms of a record. What cannot be read is logged once and does not
// hold: the plan's values do.
func (b *termsBook) of(r *policy.TenantRecord) terms {
	if len(r.Overrides) == 0 && len(r.Grants) == 0 && r.TimeZone == "" && r.QuotaAnchor == "" {
		return terms{}
	}
	b.mu.RLock()
	e, ok := b.entries[r.ID]
	b.mu.RUnlock()
	if ok && e.same(r) {
		return e.terms
	}
	e = termsEntry{r.TimeZone, r.QuotaAnchor, r.Overrides, r.Grants, b.compile(r)}
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.entries {
		if len(b.entries) < maxTerms {
			break
		}
		delete(b.entries, id)
	}
	b.entries[r.ID] = e
	return e.terms
}

// same reports whether the entry was made of this very record: directories answer
// with one copy of a record until it changes.
func (e *termsEntry) same(r *policy.TenantRecord) bool {
	return e.zone == r.TimeZone && e.anchor == r.QuotaAnchor && sameSlice(e.overrides, r.Overrides) && sameSlice(e.grants, r.Grants)
}

func sameSlice[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

func (b *termsBook) compile(r *policy.TenantRecord) (t terms) {
	var err error
	if t.overrides, err = policy.CompileOverrides(r.Overrides); err != nil {
		b.log.Error("not all overrides of a tenant can be used; the others hold", "tenant", r.ID, "error", err.Error())
		t.overrides = usable(r.Overrides)
	}
	if t.grants, err = policy.CompileGrants(r.Grants); err != nil {
		b.log.Error("grants of a tenant cannot be used; its quota holds without them", "tenant", r.ID, "error", err.Error())
	}
	if r.TimeZone != "" {
		if t.zone, err = time.LoadLocation(r.TimeZone); err != nil {
			b.log.Error("time zone of a tenant is unknown here; its quota's holds", "tenant", r.ID, "time_zone", r.TimeZone)
			t.zone = nil
		}
	}
	if r.QuotaAnchor != "" {
		if t.anchor, err = time.Parse(time.DateOnly, r.QuotaAnchor); err != nil {
			b.log.Error("quota anchor of a tenant is no date; its periods are the calendar's", "tenant", r.ID, "quota_anchor", r.QuotaAnchor)
			t.anchor = time.Time{}
		}
	}
	return t
}

// usable compiles those of the overrides that can be read: one that cannot does
// not take the others with it.
func usable(list []policy.Override) *policy.Overrides {
	var good []policy.Override
	for i := range list {
		if _, err := policy.CompileOverrides(list[i : i+1]); err == nil {
			good = append(good, list[i])
		}
	}
	o, err := policy.CompileOverrides(good)
	if err != nil { // good ones that contradict each other
		return nil
	}
	return o
}

// forget drops the terms of a tenant, or of all with "".
func (b *termsBook) forget(tenant string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if tenant == "" {
		clear(b.entries)
		return
	}
	delete(b.entries, tenant)
}
