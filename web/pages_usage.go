package web

import (
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/headgate/headgate/usage"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// settled is how long after a second has ended all replicas have reported it.
const settled = 2 * time.Second

// stale is the age from which live counts are said to be unknown.
const stale = 10 * time.Second

// span is a range of live counts that a page can show.
type span struct {
	name, label string
	length      time.Duration
	step        time.Duration
}

func spans() []span {
	return []span{
		{"5m", "5 minutes", 5 * time.Minute, 5 * time.Second},
		{"15m", "15 minutes", 15 * time.Minute, 10 * time.Second},
		{"1h", "hour", time.Hour, 30 * time.Second},
	}
}

// tab is the range as the name of a tab.
func (sp span) tab() string {
	if sp.length == time.Hour {
		return "1 hour"
	}
	return sp.label
}

// spanOf is the range that was asked for, else 15 minutes or as much as is known.
func (s *Server) spanOf(r *http.Request, now time.Time) span {
	for _, sp := range spans() {
		if sp.name == r.URL.Query().Get("live") {
			return sp
		}
	}
	if known := s.knownSpan(now); known.length < spans()[1].length {
		return known
	}
	return spans()[1]
}

// window is the range that a chart covers now. Its ends lie on whole steps, so
// that points keep their place from one poll to the next.
func (sp span) window(now time.Time) (from, to time.Time) {
	to = now.Add(-settled).Truncate(sp.step)
	return to.Add(-sp.length).Truncate(sp.step), to
}

// knownSpan is the shortest range that shows all that is known: right after a
// start an hour's line would be a blank with a dash at its end.
func (s *Server) knownSpan(now time.Time) span {
	all := spans()
	hour := all[len(all)-1]
	from, to := hour.window(now)
	for _, p := range s.series(s.totals(), from, to, hour.step).points {
		if !p.Reported {
			continue
		}
		for _, sp := range all {
			if now.Sub(p.At) <= sp.length {
				return sp
			}
		}
	}
	return hour
}

// liveFacts fills in the strip's live numbers from the counts that the pages
// show, so that both say the same.
func (s *Server) liveFacts(f *ui.Facts) {
	m := lastMinute(f.Now, s.totals())
	f.LiveKnown = s.liveKnown(f.Now)
	f.DegradedPerS = m.rate(m.Degraded)
	f.RefusedPercent = percentOf(m.Refused, decided(m.Point))
}

// liveAge is the source and age of live counts, in words.
func (s *Server) liveAge(now time.Time) string {
	at, ok := s.Activity.Live().AsOf()
	if !ok {
		return "live, not the record · nothing reported yet"
	}
	return "live, not the record · " + ui.Ago(now, at)
}

// liveKnown reports whether live counts are new enough to speak of now.
func (s *Server) liveKnown(now time.Time) bool {
	at, ok := s.Activity.Live().AsOf()
	return ok && now.Sub(at) < stale
}

// series is a run of live counts.
type series struct {
	points []usage.Point
	from   time.Time
	step   time.Duration // as the counts are kept, at least what was asked for
}

// fetch is usage.Live.Totals, or TenantSeries of one tenant.
type fetch func(from, to time.Time, step time.Duration) []usage.Point

func (s *Server) totals() fetch { return s.Activity.Live().Totals }

func (s *Server) ofTenant(id string) fetch {
	return func(from, to time.Time, step time.Duration) []usage.Point {
		return s.Activity.Live().TenantSeries(id, from, to, step)
	}
}

func (s *Server) series(get fetch, from, to time.Time, step time.Duration) series {
	x := series{points: get(from, to, step), from: from, step: step}
	if len(x.points) > 0 {
		x.from = x.points[0].At
	}
	if len(x.points) > 1 {
		x.step = x.points[1].At.Sub(x.points[0].At)
	}
	return x
}

// values is a number for each point; what nobody has reported is a gap, never
// zero.
func (x series) values(of func(usage.Point) float64) []float64 {
	out := make([]float64, len(x.points))
	for i, p := range x.points {
		out[i] = math.NaN()
		if p.Reported {
			out[i] = of(p)
		}
	}
	return out
}

// perSecond turns a count of each point into a rate.
func (x series) perSecond(count func(usage.Point) int64) []float64 {
	return x.values(func(p usage.Point) float64 { return float64(count(p)) / x.step.Seconds() })
}

func admitted(p usage.Point) int64 { return p.Admitted }
func refused(p usage.Point) int64  { return p.Refused }
func degraded(p usage.Point) int64 { return p.Degraded }
func decided(p usage.Point) int64  { return p.Admitted + p.Refused + p.Invalid }

// refusedShare is the share of decisions that were refused, in percent.
func refusedShare(p usage.Point) float64 { return percentOf(p.Refused, decided(p)) }

// percentOf is NaN when there was nothing to take a share of.
func percentOf(part, of int64) float64 {
	if of == 0 {
		return math.NaN()
	}
	return 100 * float64(part) / float64(of)
}

// chart is the three lines of a series.
func chart(id, title string, x series, markers []ui.Marker) ui.ChartProps {
	return ui.ChartProps{
		ID: id, Title: title, Unit: "requests/s", From: x.from, Step: x.step, Markers: markers,
		Series: []ui.Series{
			{Name: "admitted", Values: x.perSecond(admitted)},
			{Name: "refused", Tone: "bad", Values: x.perSecond(refused)},
			{Name: "without Redis", Tone: "warn", Values: x.perSecond(degraded)},
		},
	}
}

// sum adds points up.
func sum(points []usage.Point) usage.Point {
	var t usage.Point
	for _, p := range points {
		t.Admitted += p.Admitted
		t.Refused += p.Refused
		t.Degraded += p.Degraded
		t.Invalid += p.Invalid
		t.Cost += p.Cost
	}
	return t
}

// minuteStep divides a minute and is the finest that is kept of a tenant.
const minuteStep = 5 * time.Second

// minute is what happened in the newest minute.
type minute struct {
	usage.Point
	seconds float64 // of it that were reported
}

func lastMinute(now time.Time, get fetch) minute {
	to := now.Add(-settled).Truncate(minuteStep)
	points := get(to.Add(-time.Minute), to, minuteStep)
	m := minute{Point: sum(points)}
	for _, p := range points {
		if p.Reported {
			m.seconds += minuteStep.Seconds()
		}
	}
	return m
}

// rate is n of the minute's requests as a number per second; NaN when nothing
// was reported.
func (m minute) rate(n int64) float64 {
	if m.seconds == 0 {
		return math.NaN()
	}
	return float64(n) / m.seconds
}

// tenantUsage is a tenant's live usage. details adds the tables.
func (s *Server) tenantUsage(r *http.Request, id string, f inForce, details bool) views.UsageLiveProps {
	now := s.Now()
	sp := s.spanOf(r, now)
	live := s.Activity.Live()
	from, to := sp.window(now)
	x := s.series(s.ofTenant(id), from, to, sp.step)
	q := url.Values{"live": {sp.name}}
	if details {
		q.Set("details", "1")
	}
	p := views.UsageLiveProps{
		Now: now, Poll: ui.TenantLiveURL(id, q.Encode()), Age: s.liveAge(now), Details: details,
		Chart: chart("usage-chart", "Requests", x, f.Markers),
		Now1m: s.minuteStats(now, lastMinute(now, s.ofTenant(id))),
	}
	tab := ""
	if details {
		tab = "usage"
	}
	for _, x := range spans() {
		p.Ranges = append(p.Ranges, ui.Tab{Label: x.tab(), URL: ui.TenantURL(id, tab) + "?live=" + x.name, Current: x.name == sp.name})
	}
	if details {
		p.Routes = usageRoutes(live.TenantRoutes(id, from))
		for _, l := range live.TenantLimits(id, from, 10) {
			p.Limits = append(p.Limits, views.UsageLimit{ID: l.Limit, Refused: ui.Int(l.Refused)})
		}
	}
	return p
}

// minuteStats are the headline numbers of one minute.
func (s *Server) minuteStats(now time.Time, m minute) []ui.StatProps {
	rate := func(n int64) string {
		if !s.liveKnown(now) {
			return ui.Unknown
		}
		return ui.Num(m.rate(n))
	}
	share, tone := ui.Unknown, ""
	if s.liveKnown(now) {
		share = ui.Percent(percentOf(m.Refused, decided(m.Point)))
	}
	if m.Refused > 0 {
		tone = "bad"
	}
	return []ui.StatProps{
		{Label: "Admitted", Note: "last minute", Value: rate(m.Admitted), Unit: "/s"},
		{Label: "Refused", Note: share, Value: rate(m.Refused), Unit: "/s", Tone: tone},
		{Label: "Without Redis", Note: "last minute", Value: rate(m.Degraded), Unit: "/s"},
		{Label: "Cost charged", Note: "last minute", Value: rate(m.Cost), Unit: "/s"},
	}
}

func usageRoutes(rows []usage.RouteTotals) []views.UsageRoute {
	out := make([]views.UsageRoute, 0, len(rows))
	for _, t := range rows {
		name := t.Route
		if name == "" {
			name = "(no route)"
		}
		out = append(out, views.UsageRoute{Route: name, Admitted: ui.Int(t.Admitted), Refused: ui.Int(t.Refused),
			Degraded: ui.Int(t.Degraded), Invalid: ui.Int(t.Invalid), Cost: ui.Int(t.Cost)})
	}
	return out
}
