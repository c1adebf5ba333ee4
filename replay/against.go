package replay

import (
	"time"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

const (
	// maxVersions bounds the versions that are told apart.
	maxVersions = 64
	// maxWarmUp bounds how much of a log without its beginning is not compared, in µs.
	maxWarmUp = 3_600_000_000
)

// against compares the live replay with the log: what it says of the draft is worth as
// much as it says of what has happened.
type against struct {
	versions map[int64]*compared
	warmUp   int64           // µs after which a bucket's level says nothing of the time before
	leased   int64           // differences by limits of which gateways held slices
	counted  map[string]bool // leased limits
	everyone map[string]bool // limits per global, which gateways of a Cluster may lease
	quotas   bool
}

// compared is what one version decided.
type compared struct {
	first   int64
	whole   bool // no other version decided before it
	differs int64
	late    int64 // of them after the warm-up
}

func newAgainst(live *policy.Compiled, quotas bool) against {
	a := against{versions: map[int64]*compared{}, counted: map[string]bool{}, everyone: map[string]bool{}, quotas: quotas}
	lists := [][]policy.CompiledLimit{live.Global}
	for _, plan := range live.Plans {
		lists = append(lists, plan)
	}
	for _, r := range live.Routes {
		lists = append(lists, r.Limits)
		if r.Concurrency != nil {
			a.warmUp = max(a.warmUp, r.Concurrency.Hold.Microseconds())
		}
	}
	for _, list := range lists {
		for i := range list {
			l := &list[i]
			if n := l.Numbers; !n.Blocked() {
				a.warmUp = max(a.warmUp, limiter.UntilFull(0, n))
			}
			a.counted[l.ID] = a.counted[l.ID] || l.Leased
			a.everyone[l.ID] = l.Per == policy.PerGlobal
		}
	}
	a.warmUp = min(a.warmUp, maxWarmUp)
	return a
}

// entry compares one decision that the store made.
func (a *against) entry(e *decisionlog.Entry, live *outcome) {
	v := a.versions[e.Policy]
	if v == nil {
		if len(a.versions) >= maxVersions {
			delete(a.versions, a.lowest())
		}
		v = &compared{first: e.At, whole: len(a.versions) == 0}
		a.versions[e.Policy] = v
	}
	// The deny cache knows some of the limits only: another one may have decided.
	if live.allowed == e.Allowed && (e.Allowed || e.Cached || live.by == e.Limit || e.Limit == "") {
		return
	}
	if a.counted[e.Limit] || a.counted[live.by] || e.Leased && (a.everyone[e.Limit] || a.everyone[live.by]) {
		a.leased++
		return
	}
	if v.differs++; e.At >= v.first+a.warmUp {
		v.late++
	}
}

func (a *against) lowest() int64 {
	low := int64(1<<63 - 1)
	for version := range a.versions {
		low = min(low, version)
	}
	return low
}

// tell is how many decisions of the live version the replay makes otherwise, with what
// belongs to that number.
func (a *against) tell(f *folder) int64 {
	version := int64(0)
	if told, ok := f.c.log.Log.(interface{ Live() int64 }); ok {
		version = told.Live()
	} else {
		for n := range a.versions {
			version = max(version, n)
		}
	}
	v := a.versions[version]
	if a.quotas && f.sum.Entries > 0 && (v == nil || !v.whole || f.c.log.gaps()) {
		f.notef("Quotas count from the beginning of the log: what was used before it, in periods that were running then, is not counted. A quota that a tenant has used up by now refuses more than is said here.")
	}
	if v == nil {
		if f.sum.Entries > 0 {
			f.notef("The log has no decisions of the live version, so the replay cannot be compared with them.")
		}
		return 0
	}
	differs := v.differs
	if f.c.log.gaps() || !v.whole {
		differs = v.late
		f.notef("The log does not show what was in the buckets when version %d began to decide in it. The replay begins with full ones, and is compared with what was decided from %s later on.",
			version, policy.DurationText(time.Duration(a.warmUp)*time.Microsecond))
	}
	if a.leased > 0 {
		f.notef("%d decisions differ by a leased limit, which a replay counts exactly and gateways in slices.", a.leased)
	}
	if differs > 0 {
		f.notef("The replay decides %d requests otherwise than version %d did: tenants are replayed with the plan and the overrides that they have now.", differs, version)
	}
	return differs
}
