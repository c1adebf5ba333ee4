package usage

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	// livePaths bounds the paths that a Live tells apart: 200 KiB.
	livePaths = 512
	// pathStep is in seconds, and divides an hour.
	pathStep = 300
	// timeStep is in seconds; timeSlots of them hold more than a minute.
	timeStep  = 10
	timeSlots = 8
	// detailStale is the age from which details are not known, in seconds.
	detailStale = 3 * detailEvery
	// maxDetailCount bounds what one row counts: what is above it is made up.
	maxDetailCount = 1 << 40
)

// Unmatched is a path without a route of its own that was asked for in the last hour.
type Unmatched struct {
	Method   string // "" for one that is not told
	Path     string // as PathTemplate gives it
	Route    string // that takes every path and took this one; "": refused with 404
	Requests int64  // within the hour, ± 5 min; at least so many
	Last     time.Time
}

// RouteTime says how long deciding took on a route, as the bounds of the buckets
// into which the median and the 99th of a hundred fall.
type RouteTime struct {
	Decisions int64
	// P50 and P99 are upper bounds; math.MaxInt64 above the largest of TimeBounds.
	P50, P99 time.Duration
}

// liveDetail is what a Live keeps of details.
type liveDetail struct {
	asOf  int64
	paths map[pathKey]*pathLive
	rest  ring // requests of paths that are not told apart, as invalid
	times map[string]*timeLive
	line  timeLine
}

type pathLive struct {
	last  int64
	slots [3600/pathStep + 1]pathSlot
}

type pathSlot struct{ begin, requests int64 }

type timeLive [timeSlots]struct {
	begin int64
	buckets
}

func newLiveDetail() liveDetail {
	return liveDetail{paths: map[pathKey]*pathLive{}, rest: ring{step: detailStep}, times: map[string]*timeLive{}}
}

// apply adds the detail of a batch that was counted up to a second. Nothing in it
// is believed: what no gateway can have made is passed over.
func (d *liveDetail) apply(b *Detail, through, now int64) {
	through = min(through, now)
	if d.asOf = max(d.asOf, through); through <= now-3600 {
		return
	}
	for _, r := range b.Paths[:min(len(b.Paths), MaxPaths)] {
		last := min(r.Last, now)
		if r.Requests <= 0 || r.Requests > maxDetailCount || last <= now-3600 || !isTemplate(r.Path) || r.Method != PathMethod(r.Method) || !plainText(r.Route, 63) {
			continue
		}
		d.path(pathKey{r.Method, r.Path, r.Route}, now).add(last, r.Requests)
	}
	if b.Rest > 0 && b.Rest <= maxDetailCount {
		d.rest.add(through, tally{invalid: b.Rest})
	}
	for _, r := range b.Times[:min(len(b.Times), MaxTimes)] {
		if r.Route == "" || !plainText(r.Route, 63) || slices.ContainsFunc(r.Buckets, func(n int64) bool { return n < 0 || n > maxDetailCount }) {
			continue
		}
		d.time(r.Route, through, r.Buckets, now)
		d.line.add(through, r.Buckets)
	}
}

// path finds a path or makes room for it: of the least frequent ones, the one that
// was silent for longest is counted with the rest.
func (d *liveDetail) path(k pathKey, now int64) *pathLive {
	if p := d.paths[k]; p != nil {
		return p
	}
	if len(d.paths) >= livePaths {
		var least pathKey
		fewest, oldest := int64(math.MaxInt64), int64(0)
		for k, p := range d.paths {
			if n := p.sum(now); n < fewest || n == fewest && p.last < oldest {
				least, fewest, oldest = k, n, p.last
			}
		}
		if fewest > 0 {
			d.rest.add(oldest, tally{invalid: fewest})
		}
		delete(d.paths, least)
	}
	p := &pathLive{}
	d.paths[k] = p
	return p
}

func (p *pathLive) add(second, n int64) {
	p.last = max(p.last, second)
	begin := second - second%pathStep
	s := &p.slots[begin/pathStep%int64(len(p.slots))]
	if s.begin > begin {
		return
	}
	if s.begin < begin {
		*s = pathSlot{begin: begin}
	}
	s.requests += n
}

// sum is what was counted in the last hour.
func (p *pathLive) sum(now int64) (n int64) {
	for _, s := range p.slots {
		if s.begin > now-3600 && s.begin <= now {
			n += s.requests
		}
	}
	return n
}

func (d *liveDetail) time(route string, through int64, counts []int64, now int64) {
	t := d.times[route]
	if t == nil {
		if len(d.times) >= maxRoutes {
			for name, t := range d.times {
				if sum := t.sum(now); sum.total() == 0 {
					delete(d.times, name)
				}
			}
		}
		if len(d.times) >= maxRoutes {
			return
		}
		t = &timeLive{}
		d.times[route] = t
	}
	begin := through - through%timeStep
	s := &t[begin/timeStep%timeSlots]
	if s.begin > begin {
		return
	}
	if s.begin < begin {
		s.begin, s.buckets = begin, buckets{}
	}
	s.add(counts)
}

// sum is what was counted in the last minute, to 10 s.
func (t *timeLive) sum(now int64) (b buckets) {
	for i := range t {
		if s := &t[i]; s.begin > now-60-timeStep && s.begin <= now {
			b.add(s.buckets[:])
		}
	}
	return b
}

// at is the upper bound of the bucket into which a share of all falls.
func (b *buckets) at(share float64) time.Duration {
	rank := int64(math.Ceil(share * float64(b.total())))
	for i, n := range b[:len(timeBounds)] {
		if rank -= n; rank <= 0 {
			return time.Duration(timeBounds[i]) * time.Microsecond
		}
	}
	return math.MaxInt64
}

// DetailKnown reports whether some replica told its details within half a minute;
// if not, neither paths nor times are known.
func (l *Live) DetailKnown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.more.asOf > l.now().Unix()-detailStale
}

// Unmatched lists the paths of the last hour that no route of their own matched, the
// most frequent first. Rest counts requests of paths that are not told apart, because
// there were too many.
func (l *Live) Unmatched() (paths []Unmatched, rest int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().Unix()
	for k, p := range l.more.paths {
		n := p.sum(now)
		if n == 0 {
			delete(l.more.paths, k)
			continue
		}
		paths = append(paths, Unmatched{Method: k.method, Path: k.path, Route: k.route, Requests: n, Last: time.Unix(p.last, 0).UTC()})
	}
	slices.SortFunc(paths, func(a, b Unmatched) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), b.Last.Compare(a.Last), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method), cmp.Compare(a.Route, b.Route))
	})
	return paths, l.more.rest.sum(now - 3600).invalid
}

// RouteTimes says how long deciding took on each route in the last minute, from
// receiving a request to its decision: Redis and looking into a body included, the
// upstream not. Routes without decisions are left out, and those of which it is not
// known.
func (l *Live) RouteTimes() map[string]RouteTime {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]RouteTime{}
	for route, t := range l.more.times {
		b := t.sum(l.now().Unix())
		if told := b.told(); told.Decisions > 0 {
			out[route] = told
		}
	}
	return out
}
