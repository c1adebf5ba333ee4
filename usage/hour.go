package usage

import (
	"time"
)

// Hour is what live counts say of the last hour, or of as much of it as is known.
type Hour struct {
	Known   time.Duration     // of the hour: what no replica reported is left out
	All     Demand            // everything together
	Routes  map[string]Demand // of routes that were met and are told apart
	Tenants map[string]Demand // of tenants that are told apart, over all routes; Tenants is 1
}

// Demand is what was asked for, admitted or refused. Cost counts one for each
// request that was refused, whose cost is not known.
type Demand struct {
	Requests, Cost int64
	Tenants        int64 // that are told apart
	// The busiest minute: of all together, and of the busiest tenant.
	PeakRequests, PeakCost             int64
	TenantPeakRequests, TenantPeakCost int64
}

const minute = 60

// peaks adds up demand by minute.
type peaks map[int64]*[2]int64

func (p peaks) add(r *ring, from int64) (requests, cost int64) {
	r.each(from, 1<<62, func(second int64, t tally) {
		n, c := t.admitted+t.refused, t.cost+t.refused
		if n == 0 && c == 0 {
			return
		}
		at := second / minute
		if p[at] == nil {
			p[at] = &[2]int64{}
		}
		p[at][0] += n
		p[at][1] += c
		requests, cost = requests+n, cost+c
	})
	return requests, cost
}

func (p peaks) top() (requests, cost int64) {
	for _, v := range p {
		requests, cost = max(requests, v[0]), max(cost, v[1])
	}
	return requests, cost
}

func demandOf(r *ring, from int64) (d Demand) {
	p := peaks{}
	d.Requests, d.Cost = p.add(r, from)
	d.PeakRequests, d.PeakCost = p.top()
	return d
}

// LastHour tells what was asked for, by route and by tenant. It takes some
// milliseconds at its largest: keep the answer for some seconds.
func (l *Live) LastHour() Hour {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().Unix()
	from := now - int64(kept/time.Second) + 1
	h := Hour{All: demandOf(&l.totals, from), Routes: map[string]Demand{}, Tenants: map[string]Demand{}}
	for second := from; second <= now; second++ {
		if l.told.any(second, second+1) {
			h.Known += time.Second
		}
	}
	for name, r := range l.routes {
		if d := demandOf(r, from); d.Requests > 0 && name != "" && name != Rest {
			h.Routes[name] = d
		}
	}
	for name, t := range l.byName {
		if name == "" || name == Rest {
			continue
		}
		d := demandOf(&t.all, from)
		if d.Requests == 0 {
			continue
		}
		d.Tenants, d.TenantPeakRequests, d.TenantPeakCost = 1, d.PeakRequests, d.PeakCost
		h.Tenants[name] = d
		h.All = h.All.with(d)
		for route, r := range t.routes {
			if of, met := h.Routes[route]; met {
				h.Routes[route] = of.with(ofTenant(demandOf(r, from)))
			}
		}
	}
	return h
}

// ofTenant is the demand of one tenant as part of others'.
func ofTenant(d Demand) Demand {
	d.TenantPeakRequests, d.TenantPeakCost = d.PeakRequests, d.PeakCost
	return d
}

// with counts one more tenant, whose requests are counted already.
func (d Demand) with(tenant Demand) Demand {
	if tenant.Requests == 0 {
		return d
	}
	d.Tenants++
	d.TenantPeakRequests = max(d.TenantPeakRequests, tenant.TenantPeakRequests)
	d.TenantPeakCost = max(d.TenantPeakCost, tenant.TenantPeakCost)
	return d
}
