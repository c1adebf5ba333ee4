package usage

import (
	"sync"
	"time"
)

const (
	defaultTenants = 2000
	maxRoutes      = 1000
	// maxDetails bounds the series of one tenant and route, or tenant and limit.
	maxDetails = 10_000
	// perTenant bounds how many of them one tenant may have, of each kind.
	perTenant = 32

	totalStep  = 1  // seconds a slot
	tenantStep = 5  // the same
	detailStep = 15 // the same

	// sweepEvery is how often, in seconds, a Live that is full looks for what can
	// go: the look takes milliseconds, and each row of a batch may want it.
	sweepEvery = 60
)

// LiveConfig says how much a Live holds.
type LiveConfig struct {
	Now     func() time.Time // default time.Now
	Tenants int              // tenants told apart, the others are Rest; default 2000
}

// Live adds up batches of the last hour for the pages. It is safe for
// concurrent use. Its memory is bounded: 30 KiB a tenant and 100 MiB of details
// at the very worst.
type Live struct {
	now     func() time.Time
	tenants int

	mu      sync.Mutex
	totals  ring
	unsure  ring // admitted without Redis
	byName  map[string]*tenantLive
	routes  map[string]*ring
	details int
	swept   int64 // oldest of the last sweep
	seen    seenBatches
	told    reported
	asOf    int64
	more    liveDetail
}

type tenantLive struct {
	all    ring
	routes map[string]*ring
	limits map[string]*ring
}

// NewLive starts empty.
func NewLive(cfg LiveConfig) *Live {
	l := &Live{
		now: cfg.Now, tenants: cfg.Tenants, totals: ring{step: totalStep}, unsure: ring{step: totalStep},
		byName: map[string]*tenantLive{}, routes: map[string]*ring{}, seen: seenBatches{}, more: newLiveDetail(),
	}
	if l.now == nil {
		l.now = time.Now
	}
	if l.tenants <= 0 {
		l.tenants = defaultTenants
	}
	return l
}

// Apply adds a batch, each one once by replica, boot and sequence; it reports
// whether it was new. What is older than an hour is left out; what claims to
// come from the future counts as now.
func (l *Live) Apply(b Batch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().Unix()
	from, isNew := l.seen.take(b, now)
	if !isNew {
		return false
	}
	oldest := now - int64(kept/time.Second)
	for second := max(from, oldest); second <= min(b.Through, now); second++ {
		l.told.mark(second)
	}
	for _, r := range b.Rows {
		r.Second = min(r.Second, now)
		if r.Second <= oldest || r.Requests <= 0 || r.Cost < 0 {
			continue
		}
		l.apply(r, oldest)
	}
	if b.Detail != nil {
		l.more.apply(b.Detail, b.Through, now)
	}
	if b.Through > oldest {
		l.asOf = max(l.asOf, min(b.Through, now))
	}
	return true
}

func (l *Live) apply(r Row, oldest int64) {
	t := tallyOf(r)
	l.told.mark(r.Second)
	l.totals.add(r.Second, t)
	if t.degraded > 0 && t.admitted > 0 {
		l.unsure.add(r.Second, t)
	}
	l.route(r.Route, oldest).add(r.Second, t)
	tenant := l.tenant(r.Tenant, oldest)
	tenant.all.add(r.Second, t)
	if d := l.detail(&tenant.routes, r.Route, oldest); d != nil {
		d.add(r.Second, t)
	}
	if r.Limit == "" {
		return
	}
	if d := l.detail(&tenant.limits, r.Limit, oldest); d != nil {
		d.add(r.Second, t)
	}
}

// tenant finds a tenant's series, makes one if there is room, and otherwise is
// that of Rest.
func (l *Live) tenant(name string, oldest int64) *tenantLive {
	if t, held := l.byName[name]; held {
		return t
	}
	if len(l.byName) >= l.tenants {
		l.sweep(oldest)
	}
	if len(l.byName) >= l.tenants && name != "" {
		name = Rest // has room besides, as has ""
	}
	if t, held := l.byName[name]; held {
		return t
	}
	t := &tenantLive{all: ring{step: tenantStep}}
	l.byName[name] = t
	return t
}

// sweep lets go of tenants, routes and details that were silent for an hour.
func (l *Live) sweep(oldest int64) {
	if since := oldest - l.swept; since >= 0 && since < sweepEvery {
		return
	}
	l.swept = oldest
	sweepRings(l.routes, oldest)
	for name, t := range l.byName {
		if t.all.silent(oldest) {
			l.details -= len(t.routes) + len(t.limits)
			delete(l.byName, name)
			continue
		}
		l.details -= sweepRings(t.routes, oldest) + sweepRings(t.limits, oldest)
	}
}

func (l *Live) route(name string, oldest int64) *ring {
	if r, held := l.routes[name]; held {
		return r
	}
	if len(l.routes) >= maxRoutes {
		l.sweep(oldest)
	}
	if len(l.routes) >= maxRoutes {
		name = Rest
	}
	if r, held := l.routes[name]; held {
		return r
	}
	r := &ring{step: tenantStep}
	l.routes[name] = r
	return r
}

func sweepRings(rings map[string]*ring, oldest int64) (gone int) {
	for name, r := range rings {
		if r.silent(oldest) {
			delete(rings, name)
			gone++
		}
	}
	return gone
}

// detail finds one of a tenant's series; nil when there is no room for it.
func (l *Live) detail(of *map[string]*ring, name string, oldest int64) *ring {
	if *of == nil {
		*of = map[string]*ring{}
	}
	if r, held := (*of)[name]; held {
		return r
	}
	if len(*of) >= perTenant {
		l.details -= sweepRings(*of, oldest)
		if len(*of) >= perTenant {
			name = Rest
		}
		if r, held := (*of)[name]; held {
			return r
		}
	}
	if l.details >= maxDetails {
		l.sweep(oldest)
	}
	if l.details >= maxDetails {
		return nil
	}
	l.details++
	r := &ring{step: detailStep}
	(*of)[name] = r
	return r
}

// AsOf is the newest second that some replica has counted to the end; false
// when none was reported within the hour: then nothing is known, which is not
// the same as nothing having happened.
func (l *Live) AsOf() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asOf <= l.now().Unix()-int64(kept/time.Second) {
		return time.Time{}, false
	}
	return time.Unix(l.asOf, 0).UTC(), true
}
