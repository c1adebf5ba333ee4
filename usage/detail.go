package usage

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

const (
	// detailEvery is how often, in seconds, a batch has a Detail.
	detailEvery = 10
	// MaxPaths bounds the paths of one Detail. With its routes they are at most 56 KiB of JSON, and some hundred bytes as a rule.
	MaxPaths = 64
	// MaxTimes bounds the routes of one Detail.
	MaxTimes = 200
	// pathsHeld bounds the paths that a replica tells apart between two of them.
	pathsHeld = 256
)

// Detail is what a batch tells every ten seconds besides its rows. One without
// anything says that there was nothing.
type Detail struct {
	From  int64     `json:"from"` // Unix second of the detail before, or of the start
	Paths []PathRow `json:"paths,omitempty"`
	Rest  int64     `json:"rest,omitempty"` // requests of paths that there was no room for
	Times []TimeRow `json:"times,omitempty"`
}

// PathRow counts requests that have no route of their own.
type PathRow struct {
	Method   string `json:"m,omitempty"` // as PathMethod gives it
	Path     string `json:"p"`           // as PathTemplate gives it
	Route    string `json:"r,omitempty"` // that takes every path, and so took them; "": they were refused with 404
	Requests int64  `json:"n"`
	Last     int64  `json:"l"` // Unix second of the newest
}

// TimeRow says how long decisions of a route took: how many fell into each bucket of
// TimeBounds, and one bucket above them. Zeros at the end are left out.
type TimeRow struct {
	Route   string  `json:"r"`
	Buckets []int64 `json:"b"`
}

// TimeBounds are the upper bounds of the buckets in which deciding times are counted.
func TimeBounds() []time.Duration {
	out := make([]time.Duration, len(timeBounds))
	for i, us := range timeBounds {
		out[i] = time.Duration(us) * time.Microsecond
	}
	return out
}

// timeBounds are in microseconds.
//
//nolint:gochecknoglobals // a table that nobody changes
var timeBounds = [...]int64{50, 100, 250, 500, 1000, 2500, 5000, 10_000, 15_000, 20_000, 25_000, 30_000, 50_000, 100_000}

// buckets counts decisions by how long they took.
type buckets [len(timeBounds) + 1]int64

func (b *buckets) count(took time.Duration) {
	us, i := took.Microseconds(), 0
	for i < len(timeBounds) && us > timeBounds[i] {
		i++
	}
	b[i]++
}

func (b *buckets) add(o []int64) {
	for i := range min(len(o), len(b)) {
		b[i] += o[i]
	}
}

func (b *buckets) total() (n int64) {
	for _, v := range b {
		n += v
	}
	return n
}

// row leaves zeros at the end out.
func (b *buckets) row(route string) TimeRow {
	n := len(b)
	for n > 0 && b[n-1] == 0 {
		n--
	}
	return TimeRow{Route: route, Buckets: slices.Clone(b[:n])}
}

type pathKey struct{ method, path, route string }

type pathCell struct {
	requests, last int64
}

// pathCounter counts paths without a route of their own. What is known is counted
// without an allocation; what there is no room for is counted together.
type pathCounter struct {
	mu    sync.Mutex
	cells map[pathKey]*pathCell
	rest  int64
}

func (c *pathCounter) add(second int64, method, path, route string) {
	var room [MaxTemplate]byte
	template := appendTemplate(room[:0], path)
	method = PathMethod(method)
	c.mu.Lock()
	defer c.mu.Unlock()
	cell := c.cells[pathKey{method, string(template), route}]
	if cell == nil {
		if len(c.cells) >= pathsHeld {
			c.rest++
			return
		}
		cell = &pathCell{}
		c.cells[pathKey{method, string(template), route}] = cell
	}
	cell.requests++
	cell.last = max(cell.last, second)
}

// take takes out what was counted, the MaxPaths most frequent apart. What was silent
// is let go of, so that a path that keeps coming has a place and scans pass by.
func (c *pathCounter) take() (rows []PathRow, rest int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rest, c.rest = c.rest, 0
	crowded := len(c.cells) >= pathsHeld/2
	for k, cell := range c.cells {
		if cell.requests == 0 || crowded && cell.requests == 1 {
			delete(c.cells, k)
		}
		if cell.requests == 0 {
			continue
		}
		rows = append(rows, PathRow{Method: k.method, Path: k.path, Route: k.route, Requests: cell.requests, Last: cell.last})
		cell.requests = 0
	}
	slices.SortFunc(rows, func(a, b PathRow) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method), cmp.Compare(a.Route, b.Route))
	})
	for _, r := range rows[min(len(rows), MaxPaths):] {
		rest += r.Requests
	}
	return rows[:min(len(rows), MaxPaths)], rest
}

// AddPath counts one request that matched no route (route is ""), or nothing but a
// route for every path. The path is canonical; only its template is kept.
func (c *Counter) AddPath(now time.Time, method, path, route string) {
	c.paths.add(now.Unix(), method, path, route)
}

// detail is due every detailEvery seconds, and when the counting ends.
func (c *Counter) detail(through int64, last bool) *Detail {
	if c.detailed == 0 && !last { // the start
		c.detailed = through
	}
	if through-c.detailed < detailEvery && !last {
		return nil
	}
	d := &Detail{From: c.detailed, Times: c.takeTimes()}
	d.Paths, d.Rest = c.paths.take()
	c.detailed = through
	return d
}

// takeTimes takes out the deciding times by route, of the MaxTimes busiest ones.
func (c *Counter) takeTimes() []TimeRow {
	sum := map[string]*buckets{}
	for i := range c.shards {
		c.shards[i].takeTimes(sum)
	}
	rows := make([]TimeRow, 0, len(sum))
	for route, b := range sum {
		rows = append(rows, b.row(route))
	}
	slices.SortFunc(rows, func(a, b TimeRow) int {
		return cmp.Or(cmp.Compare(sum[b.Route].total(), sum[a.Route].total()), cmp.Compare(a.Route, b.Route))
	})
	return rows[:min(len(rows), MaxTimes)]
}

// takeTimes adds a shard's times to sum. A route that was silent is let go of.
func (s *counterShard) takeTimes(sum map[string]*buckets) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for route, b := range s.times {
		if b.total() == 0 {
			delete(s.times, route)
			continue
		}
		if sum[route] == nil {
			sum[route] = &buckets{}
		}
		sum[route].add(b[:])
		*b = buckets{}
	}
}
