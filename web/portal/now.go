package portal

import (
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
	views "github.com/headgate/headgate/views/portal"
	"github.com/headgate/headgate/views/ui"
)

const (
	// settled is how long after a second has ended its counts are all there.
	settled = 2 * time.Second
	// stale is the age from which live counts are said to be unknown.
	stale     = 10 * time.Second
	hourStep  = 30 * time.Second
	fineStep  = 5 * time.Second
	maxLimits = 10
)

func (s *Server) now(w http.ResponseWriter, r *http.Request, v *visit) error {
	p, err := s.nowProps(r, v)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, views.Now(p))
}

func (s *Server) nowLive(w http.ResponseWriter, r *http.Request, v *visit) error {
	p, err := s.nowProps(r, v)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, views.NowLive(p))
}

func (s *Server) nowProps(r *http.Request, v *visit) (views.NowProps, error) {
	now := s.Now()
	p := views.NowProps{Frame: s.frame(v, "Now", ""), Age: s.age(now), Chart: s.chart(now, v.tenant.ID)}
	p.Kind, p.Text, p.More = s.sentence(now, v.tenant)
	limits, err := s.Overrides.Effective(r.Context(), v.tenant.ID)
	if err != nil {
		return p, err
	}
	own := ownLimits(limits.Limits)
	p.Gauges = gauges(own)
	for _, l := range own {
		if l.Kind == console.LimitQuota {
			q, err := s.quota(r, v, l)
			if err != nil {
				return p, err
			}
			p.Quota = q
		}
	}
	for _, l := range s.Activity.Live().TenantLimits(v.tenant.ID, now.Add(-time.Hour), maxLimits) {
		if row, ok := refusal(l, own); ok {
			p.Last = append(p.Last, row)
		}
	}
	return p, nil
}

// ownLimits leaves out what is not the tenant's matter: what all tenants
// together may do, and limits that are only tried out.
func ownLimits(in []console.LimitInForce) []console.LimitInForce {
	var out []console.LimitInForce
	for _, l := range in {
		if l.Per != string(policy.PerGlobal) && !l.Shadow {
			out = append(out, l)
		}
	}
	return out
}

// sentence is how a tenant stands now.
func (s *Server) sentence(now time.Time, t console.Tenant) (kind, text, more string) {
	if t.Suspended() {
		return "bad", "Your access is suspended: every request is answered 403.", "Ask your contact."
	}
	if !s.known(now) {
		return "warn", "How your requests fare right now is unknown.", "Counts have not come in for some seconds. That does not mean that requests fail."
	}
	m := s.minute(now, t.ID)
	all := decided(m)
	switch {
	case all == 0:
		return "ok", "You sent no requests in the last minute.", ""
	case m.Refused == 0:
		return "ok", "All is well: " + ui.Int(m.Admitted) + " requests in the last minute, none refused.", ""
	}
	text = ui.Int(m.Refused) + " of " + ui.Int(all) + " requests in the last minute were refused (" + ui.Percent(100*float64(m.Refused)/float64(all)) + ")."
	return "warn", text, "Each refusal says in Retry-After how long to wait; waiting that long is enough."
}

func (s *Server) age(now time.Time) string {
	at, ok := s.Activity.Live().AsOf()
	if !ok {
		return "live, not the record · nothing reported yet"
	}
	return "live, not the record · " + ui.Ago(now, at)
}

func (s *Server) known(now time.Time) bool {
	at, ok := s.Activity.Live().AsOf()
	return ok && now.Sub(at) < stale
}

func decided(p usage.Point) int64 { return p.Admitted + p.Refused + p.Invalid }

// minute is the newest minute of a tenant.
func (s *Server) minute(now time.Time, tenant string) (t usage.Point) {
	to := now.Add(-settled).Truncate(fineStep)
	for _, p := range s.Activity.Live().TenantSeries(tenant, to.Add(-time.Minute), to, fineStep) {
		t.Admitted, t.Refused, t.Invalid, t.Cost = t.Admitted+p.Admitted, t.Refused+p.Refused, t.Invalid+p.Invalid, t.Cost+p.Cost
	}
	return t
}

// chart is a tenant's last hour. When the operator publishes is not its matter.
func (s *Server) chart(now time.Time, tenant string) ui.ChartProps {
	to := now.Add(-settled).Truncate(hourStep)
	points := s.Activity.Live().TenantSeries(tenant, to.Add(-time.Hour), to, hourStep)
	rate := func(of func(usage.Point) int64) []float64 {
		out := make([]float64, len(points))
		for i, p := range points {
			out[i] = math.NaN()
			if p.Reported {
				out[i] = float64(of(p)) / hourStep.Seconds()
			}
		}
		return out
	}
	return ui.ChartProps{ID: "requests", Title: "Requests", Unit: "requests/s", From: to.Add(-time.Hour), Step: hourStep, Series: []ui.Series{
		{Name: "admitted", Values: rate(func(p usage.Point) int64 { return p.Admitted })},
		{Name: "refused", Tone: "bad", Values: rate(func(p usage.Point) int64 { return p.Refused })},
	}}
}

// gauges compare what was asked of rate limits in the busiest minute with what
// a minute gives.
func gauges(limits []console.LimitInForce) []views.Gauge {
	var out []views.Gauge
	for _, l := range limits {
		if l.Kind != console.LimitRate || l.Now().Value.Unlimited {
			continue
		}
		g := views.Gauge{Limit: l.ID, Applies: applies(l), Text: "unknown"}
		rate, err := policy.ParseRate(l.Now().Value.Rate)
		if err == nil && l.Peak != nil && rate.Period > 0 {
			most := float64(rate.Tokens)*float64(time.Minute)/float64(rate.Period) + float64(l.Now().Value.Burst)
			g.Known, g.Text = true, "at most "+ui.Int(l.Peak.PerMinute)+" of "+ui.Int(int64(most))
			if most > 0 {
				g.Percent = int(min(100, 100*float64(l.Peak.PerMinute)/most))
			}
		}
		out = append(out, g)
	}
	return out
}

func applies(l console.LimitInForce) string {
	switch len(l.Routes) {
	case 0:
		return "every route"
	case 1:
		return "route " + l.Routes[0]
	}
	return "routes " + strings.Join(l.Routes, ", ")
}

// refusal is one row of what was refused. A limit that is not the tenant's is
// told as what it is for it: that the service as a whole was busy.
func refusal(l usage.LimitRefusals, own []console.LimitInForce) (views.Refusal, bool) {
	if l.Refused == 0 {
		return views.Refusal{}, false
	}
	for _, o := range own {
		if o.ID == l.Limit {
			return views.Refusal{Limit: l.Limit, Count: ui.Int(l.Refused), Meaning: o.Now().Text + ", on " + applies(o)}, true
		}
	}
	return views.Refusal{Limit: "–", Count: ui.Int(l.Refused), Meaning: "not by a limit of yours: the service was busy, or the request could not be decided"}, true
}
