package usage

import "time"

// TenantDemand is what one tenant asked for in the last hour on some routes
// together, nil for all of them, and how much of the hour is known. It is not
// known (false) when no replica reported or when the tenant or one of the routes
// is not told apart.
func (l *Live) TenantDemand(tenant string, routes []string) (d Demand, known time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().Unix()
	from := now - int64(kept/time.Second) + 1
	for second := from; second <= now; second++ {
		if l.told.any(second, second+1) {
			known += time.Second
		}
	}
	t, held := l.byName[tenant]
	if !held {
		_, full := l.byName[Rest]
		return d, known, known > 0 && !full
	}
	d.Tenants = 1
	p := peaks{}
	if routes == nil {
		d.Requests, d.Cost = p.add(&t.all, from)
	}
	_, more := t.routes[Rest]
	for _, name := range routes {
		r, held := t.routes[name]
		if !held {
			if more || l.details >= maxDetails {
				return Demand{}, known, false
			}
			continue
		}
		n, c := p.add(r, from)
		d.Requests, d.Cost = d.Requests+n, d.Cost+c
	}
	d.PeakRequests, d.PeakCost = p.top()
	d.TenantPeakRequests, d.TenantPeakCost = d.PeakRequests, d.PeakCost
	return d, known, known > 0
}
