package console

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// effective is what a tenant meets, with where it comes from.
func (s *Explainer) effective(ctx context.Context, tx Tx, t Tenant, now time.Time) (TenantLimits, error) {
	out := TenantLimits{Tenant: t, At: now}
	open, err := tx.OpenOverrides(ctx, []string{t.ID})
	if err != nil {
		return out, err
	}
	have, err := s.overrides.laws.inForce(ctx, tx)
	if err != nil {
		return out, err
	}
	out.fill(have, t.Plan, open)
	return out, nil
}

// gateways tells how the replicas stand.
func (e *explaining) gateways() {
	h, g := &e.health, &e.out.Gateways
	g.Known, g.Of, g.InSync, g.Degraded = h.FleetKnown, h.Of, h.InSync, 0
	g.RedisUp, g.RedisSince = h.RedisUp, h.RedisSince
	for _, r := range h.Replicas {
		switch {
		case r.Status == StatusGone:
		case r.Age > SilentAfter:
			g.Silent++
		case r.Mode == policy.ModeDegraded:
			if g.Degraded++; len(g.Names) < 5 {
				g.Names = append(g.Names, r.Host+" ("+r.ID+")")
			}
		}
	}
}

// traffic reads live counts of the tenant.
func (e *explaining) traffic() {
	t, live := &e.out.Traffic, e.s.live
	t.AskedAt = e.q.At
	for _, v := range t.versionsSeen { // the newest first
		if t.AskedAt != nil && !v.CreatedAt.After(*t.AskedAt) {
			t.ThenVersion = v.Number
			break
		}
	}
	if live == nil || e.out.Tenant == nil {
		return
	}
	id, now := e.out.Tenant.ID, e.out.At
	if t.AsOf, t.Known = live.AsOf(); !t.Known {
		return
	}
	hour := live.TenantSeries(id, now.Add(-time.Hour), now.Add(5*time.Second), 5*time.Second)
	for _, p := range hour {
		n := Share{Requests: p.Admitted + p.Refused, Refused: p.Refused}
		t.LastHour.Requests, t.LastHour.Refused = t.LastHour.Requests+n.Requests, t.LastHour.Refused+n.Refused
		if p.At.After(t.AsOf.Add(-time.Minute)) {
			t.LastMinute.Requests, t.LastMinute.Refused = t.LastMinute.Requests+n.Requests, t.LastMinute.Refused+n.Refused
		}
		if p.Refused > 0 {
			t.LastRefused = p.At
		}
	}
	t.Since = runOf(hour)
	t.RisePercent = riseOf(hour, t.Since)
	t.ByLimit = live.TenantLimits(id, now.Add(-time.Hour), 5)
	for _, r := range live.TenantRoutes(id, now.Add(-time.Hour)) {
		if r.Refused > 0 && len(t.ByRoute) < 5 {
			t.ByRoute = append(t.ByRoute, r)
		}
	}
	e.then(hour)
}

// then tells of the minute that was asked about.
func (e *explaining) then(hour []usage.Point) {
	t := &e.out.Traffic
	if t.AskedAt == nil {
		return
	}
	from := t.AskedAt.Truncate(time.Minute)
	for _, p := range hour {
		if !p.At.Before(from) && p.At.Before(from.Add(time.Minute)) && p.Reported {
			if t.Then == nil {
				t.Then = &Share{}
			}
			t.Then.Requests, t.Then.Refused = t.Then.Requests+p.Admitted+p.Refused, t.Then.Refused+p.Refused
		}
	}
}

// runOf is the begin of the last run of refusals without a minute's pause.
func runOf(points []usage.Point) (since time.Time) {
	var last time.Time
	for _, p := range points {
		if p.Refused == 0 {
			continue
		}
		if since.IsZero() || p.At.Sub(last) > time.Minute {
			since = p.At
		}
		last = p.At
	}
	return since
}

// riseOf compares requests a minute since a moment with the ten minutes before it, in per
// cent; 0 when either is not known.
func riseOf(points []usage.Point, since time.Time) int64 {
	var before, after, stepsBefore, stepsAfter int64
	for _, p := range points {
		n := p.Admitted + p.Refused
		switch {
		case since.IsZero() || !p.Reported:
		case !p.At.Before(since):
			after, stepsAfter = after+n, stepsAfter+1
		case p.At.After(since.Add(-10 * time.Minute)):
			before, stepsBefore = before+n, stepsBefore+1
		}
	}
	if before == 0 || stepsAfter == 0 || stepsBefore < 12 { // less than a minute says nothing
		return 0
	}
	return after * stepsBefore * 100 / (before * stepsAfter)
}

// ask puts the routes that are meant to the engine.
func (e *explaining) ask(ctx context.Context) {
	e.routes()
	switch {
	case e.out.Key != nil && e.secret == "" && !e.out.Key.Accepted, e.out.Key != nil && !e.out.Key.Known:
		e.whyNot = "The key is not accepted, so no limit is asked."
	case e.out.Tenant != nil && e.out.Tenant.State == policy.TenantDeleted:
		e.whyNot = "The tenant was deleted."
	case e.compiled == nil:
		e.whyNot = "No policy was published yet."
	case !e.health.RedisUp:
		e.whyNot = "Redis cannot be asked, so nobody knows what is left of any limit."
	case e.s.probe == nil:
		e.whyNot = "This console was started without a way to ask the gateways' engine."
	case len(e.asked) == 0 && e.q.Path == "":
		e.whyNot = "No route of the policy counts by what was given."
	}
	if e.whyNot != "" {
		e.remark(e.whyNot)
		return
	}
	within, cancel := context.WithTimeout(ctx, explainPatience)
	defer cancel()
	answers, err := e.s.probe.Ask(within, e.questions())
	if err != nil {
		e.remark("Not all routes could be asked in time.")
	}
	e.answers = answers
	e.out.Version.Answered = e.s.probe.Version()
	if len(answers) == 0 {
		e.whyNot = "The engine gave no answer."
	}
}

// routes chooses whom to ask about: the one that is meant, or all that may refuse.
func (e *explaining) routes() {
	if e.compiled == nil || e.q.Path != "" {
		return
	}
	busy := map[string]int64{}
	for _, r := range e.out.Traffic.ByRoute {
		busy[r.Route] = r.Refused
	}
	for _, r := range e.compiled.Routes {
		if e.q.Route != "" && r.Name == e.q.Route || e.q.Route == "" && e.concerns(r) {
			e.asked = append(e.asked, r)
		}
	}
	slices.SortStableFunc(e.asked, func(a, b *policy.CompiledRoute) int { return cmp.Compare(busy[b.Name], busy[a.Name]) })
	if len(e.asked) > explainRoutes {
		e.out.LeftOut = len(e.asked) - explainRoutes
		e.asked = e.asked[:explainRoutes]
	}
	if e.q.Route != "" && len(e.asked) == 0 {
		e.remark("The policy in force has no route " + e.q.Route + ".")
	}
}

// concerns reports whether a route counts by what was given.
func (e *explaining) concerns(r *policy.CompiledRoute) bool {
	switch r.Route.Identity {
	case policy.IdentityIP:
		return e.q.IP != "" || e.q.Account != "" && len(bodyFields(r)) > 0
	case policy.IdentityUser:
		return e.q.User != ""
	}
	return e.out.Tenant != nil
}

// bodyFields are the fields of bodies that limits of a route count per.
func bodyFields(r *policy.CompiledRoute) (names []string) {
	for i := range r.Limits {
		for _, d := range r.Limits[i].Dimensions {
			if d.Kind == policy.DimensionBody {
				names = append(names, d.Name)
			}
		}
	}
	return names
}

func (e *explaining) questions() []ProbeQuestion {
	base := ProbeQuestion{Client: e.ip, User: e.q.User}
	for _, r := range e.health.Replicas {
		base.Recorded = base.Recorded || r.Usage != nil && r.Status != StatusGone
	}
	switch k := e.out.Key; {
	case k != nil && k.Secret:
		base.Key = e.secret
	case k != nil && e.secret != "":
		base.Key = e.secret // a wrong one: the engine says so itself
	case k != nil && k.Known:
		base.Tenant, base.Credential = k.Version.TenantID, k.Version.CredentialID
	case e.out.Tenant != nil:
		base.Tenant = e.out.Tenant.ID
	}
	if e.q.Path != "" {
		q := base
		q.Method, q.Path = cmp.Or(strings.ToUpper(e.q.Method), "GET"), e.q.Path
		return []ProbeQuestion{q}
	}
	out := make([]ProbeQuestion, 0, len(e.asked))
	for _, r := range e.asked {
		q := base
		if q.Route = r.Name; e.q.Account != "" {
			q.Fields = map[string]string{}
			for _, name := range bodyFields(r) {
				q.Fields[name] = e.q.Account
			}
		}
		out = append(out, q)
	}
	return out
}

// choose finds the answer that the explanation is about: of those that refuse, the one
// on the route that was refused most of late, as the routes were asked in that order.
func (e *explaining) choose() {
	best := -1
	for i := range e.answers {
		a := &e.answers[i]
		if best < 0 || !a.Allowed && e.answers[best].Allowed {
			best = i
		}
	}
	if best < 0 {
		if len(e.asked) == 1 {
			e.out.Route = e.asked[0].Name
		}
		return
	}
	e.out.Answer, e.out.Route = &e.answers[best], e.answers[best].Route
	for i, a := range e.answers {
		if i != best {
			e.out.Others = append(e.out.Others, a)
		}
	}
}

// route is the compiled route that the explanation is about; nil when it is about none.
func (e *explaining) route() *policy.CompiledRoute {
	if e.compiled == nil || e.out.Route == "" {
		return nil
	}
	for _, r := range e.compiled.Routes {
		if r.Name == e.out.Route {
			return r
		}
	}
	return nil
}

// Routes are the names of the routes of the policy in force, in its order.
func (s *Explainer) Routes(ctx context.Context) (names []string, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		head, err := tx.Head(ctx)
		if err != nil {
			return ignoreNotFound(err)
		}
		compiled, err := s.policies.get(head)
		if err != nil {
			return err
		}
		for _, r := range compiled.Routes {
			names = append(names, r.Name)
		}
		return nil
	})
	return names, err
}
