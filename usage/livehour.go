package usage

import "time"

const (
	// lineStep is the step of the line of deciding times, in seconds.
	lineStep = 60
	// lineSlots of them hold more than an hour.
	lineSlots = 62
)

// timeLine is how long deciding took on all routes together, minute by minute.
type timeLine [lineSlots]struct {
	begin int64
	buckets
}

func (t *timeLine) add(second int64, counts []int64) {
	begin := second - second%lineStep
	s := &t[begin/lineStep%lineSlots]
	if s.begin > begin {
		return
	}
	if s.begin < begin {
		s.begin, s.buckets = begin, buckets{}
	}
	s.add(counts)
}

// MinuteTime is a RouteTime of all routes together in the minute that begins At. A
// minute without Decisions is one of which nothing is known, or in which there was
// nothing to decide.
type MinuteTime struct {
	At time.Time
	RouteTime
}

// DecisionTimes says how long deciding took, minute by minute from one moment to
// another and within the last hour, the oldest first. Replicas tell times in slices of
// ten seconds, each of which counts in the minute in which it ended.
func (l *Live) DecisionTimes(from, to time.Time) []MinuteTime {
	l.mu.Lock()
	defer l.mu.Unlock()
	begin := max(from.Unix(), l.now().Add(-kept).Unix())
	begin -= begin % lineStep
	var out []MinuteTime
	for at := begin; at < min(to.Unix(), l.now().Unix()+1); at += lineStep {
		m := MinuteTime{At: time.Unix(at, 0).UTC()}
		if s := &l.more.line[at/lineStep%lineSlots]; s.begin == at {
			m.RouteTime = s.told()
		}
		out = append(out, m)
	}
	return out
}

// DecisionTime says how long deciding took on all routes together in the last minute,
// as RouteTimes does for each.
func (l *Live) DecisionTime() RouteTime {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all buckets
	for _, t := range l.more.times {
		b := t.sum(l.now().Unix())
		all.add(b[:])
	}
	return all.told()
}

func (b *buckets) told() RouteTime {
	n := b.total()
	if n == 0 {
		return RouteTime{}
	}
	return RouteTime{Decisions: n, P50: b.at(0.5), P99: b.at(0.99)}
}

// DegradedAdmissions returns what was admitted without Redis, as Admitted, Degraded and
// Cost of the points that Totals returns; their other numbers are 0.
func (l *Live) DegradedAdmissions(from, to time.Time, step time.Duration) []Point {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.series(&l.unsure, from, to, step)
}
