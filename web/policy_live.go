package web

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) policyLive(w http.ResponseWriter, r *http.Request) error {
	head, ok, err := s.Policies.Head(r.Context())
	if err != nil {
		return err
	}
	p := views.PolicyLiveProps{Frame: s.titled(r, "Policy"), Now: s.Now(), Published: ok, View: r.URL.Query().Get("view"),
		CanEdit: can(r, console.PermEditDrafts)}
	if !ok {
		return s.render(w, r, http.StatusOK, views.PolicyLive(p))
	}
	doc, err := head.Document()
	if err != nil {
		return fmt.Errorf("read version %d: %w", head.Number, err)
	}
	p.Version = versionRow(head, head.Number)
	if p.Status, err = s.publication(r, head.Number); err != nil {
		return err
	}
	switch p.View {
	case "yaml":
		p.Text = string(doc.YAML())
	case "json":
		p.Text = string(doc.JSON())
	default:
		p.View, p.Policy = "", readable(doc, s.Fleet.Health(r.Context()).Of)
	}
	return s.render(w, r, http.StatusOK, views.PolicyLive(p))
}

// policyExport gives the document in force, or the version asked for, as a file.
func (s *Server) policyExport(w http.ResponseWriter, r *http.Request) error {
	head, ok, err := s.Policies.Head(r.Context())
	if err != nil {
		return err
	}
	if n, perr := strconv.ParseInt(r.URL.Query().Get("version"), 10, 64); perr == nil {
		if head, err = s.Policies.Version(r.Context(), n); err != nil {
			return err
		}
		ok = true
	}
	if !ok {
		return &console.Error{Code: console.CodeNotFound, Public: "Nothing has been published yet."}
	}
	doc, err := head.Document()
	if err != nil {
		return fmt.Errorf("read version %d: %w", head.Number, err)
	}
	body, kind := doc.YAML(), "yaml"
	if r.URL.Query().Get("format") == "json" {
		body, kind = doc.JSON(), "json"
	}
	w.Header().Set("Content-Type", "application/"+kind)
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="policy-v%d.%s"`, head.Number, kind))
	_, _ = w.Write(body)
	return nil
}

// readable turns a document into the tables of the live view.
func readable(d *policy.Document, replicas int) views.PolicyText {
	t := views.PolicyText{Description: d.Description, Header: d.ClientIP.Header, Replicas: replicas,
		Global: limitRows(d.Global.Limits), Shared: limitRows(d.Shared)}
	for _, p := range d.ClientIP.TrustedProxies {
		t.Proxies = append(t.Proxies, p.String())
	}
	for _, h := range d.Credentials.Headers {
		t.Headers = append(t.Headers, strings.TrimSpace(h.Name+" "+h.Scheme))
	}
	t.User, t.Expected = userText(d.User), d.ReplicasExpected
	t.Invalid = rateText(d.Credentials.Invalid.Rate, d.Credentials.Invalid.Burst)
	for _, name := range planNames(d) {
		row := views.PlanRow{Name: name, Description: d.Plans[name].Description, Limits: limitRows(d.Plans[name].Limits)}
		if q := d.Plans[name].Quota; q != nil {
			row.Limits = append(row.Limits, views.LimitRow{Name: "quota", Rate: quotaText(q) + shadowText(q.Mode), Per: "tenant", Counts: string(q.Counts)})
		}
		t.Plans = append(t.Plans, row)
	}
	t.MoreRoutes = max(len(d.Routes)-shownChanges, 0)
	for _, r := range d.Routes[:len(d.Routes)-t.MoreRoutes] {
		t.Routes = append(t.Routes, routeRow(r, replicas))
	}
	return t
}

// routeRow is a route in words; replicas is for what an outage would admit.
func routeRow(r policy.Route, replicas int) views.RouteRow {
	return views.RouteRow{Name: r.Name, Description: r.Description, Match: r.Match, Identity: string(r.Identity),
		Motive: string(r.Motive), Cost: costText(r), Limits: routeLimits(r), Uses: r.Uses,
		FailMode: string(r.OnStoreFailure.Mode), Fail: failText(r.OnStoreFailure), Worst: worstText(r.OnStoreFailure, replicas)}
}

func userText(u *policy.User) string {
	switch {
	case u == nil:
		return ""
	case u.JWT != nil:
		return "claim " + u.JWT.Claim + " of a token that " + u.JWT.JWKSFile + " verifies"
	}
	return "header " + u.Header + ", from trusted proxies only"
}

func limitRows(limits []policy.Limit) []views.LimitRow {
	rows := make([]views.LimitRow, 0, len(limits))
	for _, l := range limits {
		rows = append(rows, views.LimitRow{Name: l.Name, Description: l.Description, Per: l.Per.Text(), Counts: string(l.Counts),
			Rate: rateText(l.Rate, l.Burst) + remarks(l)})
	}
	return rows
}

// remarks are what a limit does besides, each after a comma.
func remarks(l policy.Limit) string {
	text := ""
	if l.Sync == policy.SyncLeased {
		text += ", leased"
	}
	text += shadowText(l.Mode)
	if l.ExpiresAt != nil {
		text += ", until " + endText(l.ExpiresAt)
	}
	return text
}

func shadowText(m policy.LimitMode) string {
	if m == policy.ModeShadow {
		return ", shadow: refuses nobody"
	}
	return ""
}

// routeLimits are a route's own limits and its concurrency limit.
func routeLimits(r policy.Route) []views.LimitRow {
	rows := limitRows(r.Limits)
	if c := r.Concurrency; c != nil {
		rows = append(rows, views.LimitRow{Name: "concurrency", Rate: ui.Int(c.Max) + " at once" + shadowText(c.Mode), Per: c.Per.Text()})
	}
	return rows
}

func costText(r policy.Route) string {
	switch {
	case r.GraphQL != nil:
		return "by query, ≤ " + ui.Int(r.GraphQL.Max)
	case r.SettleHeader != "":
		return ui.Int(r.Cost) + ", settled"
	}
	return ui.Int(r.Cost)
}

func amountText(q *policy.Quota) string {
	if q.Period == policy.PeriodLifetime {
		return ui.Int(q.Amount) + " in all"
	}
	return ui.Int(q.Amount) + " a " + string(q.Period)
}

func quotaText(q *policy.Quota) string {
	text := amountText(q)
	switch {
	case q.Over == policy.OverBlock:
		text += ", then refused"
	case q.Max > 0:
		text += ", then billed up to " + ui.Int(q.Max)
	default:
		text += ", then billed"
	}
	return text
}

func rateText(r policy.Rate, burst int64) string {
	switch {
	case r.Unlimited:
		return "unlimited"
	case r.Tokens == 0:
		return "0, admits nothing"
	case burst == r.Tokens:
		return r.String()
	}
	return fmt.Sprintf("%s, burst %d", r, burst)
}

func failText(f policy.StoreFailure) string {
	switch {
	case f.Mode == policy.FailClosed:
		return "closed, refuses with 503"
	case f.Fallback == nil:
		return "open"
	case f.Fallback.Unlimited:
		return "open, unlimited"
	case f.Fallback.Share:
		return "open, a share of the limits per gateway"
	}
	return "open, " + rateText(f.Fallback.Rate, f.Fallback.Burst) + " per gateway"
}

// worstText is what a minute without Redis would admit at worst per subject.
func worstText(f policy.StoreFailure, replicas int) string {
	switch {
	case f.Mode == policy.FailClosed:
		return "0"
	case f.Fallback == nil, f.Fallback.Unlimited:
		return "no bound"
	case f.Fallback.Share:
		return "the limits, shared out"
	case replicas == 0 || f.Fallback.Rate.Period <= 0:
		return "unknown"
	}
	perMinute := float64(f.Fallback.Rate.Tokens) * float64(time.Minute) / float64(f.Fallback.Rate.Period)
	return ui.Int(int64(float64(replicas) * (float64(f.Fallback.Burst) + perMinute)))
}

func diffRows(changes []policy.Change) []ui.DiffRow {
	var rows []ui.DiffRow
	for _, c := range changes {
		rows = append(rows, diffRow(c))
	}
	// What makes limits tighter is read first: it is what callers will notice.
	order := map[string]int{policy.EffectTighter: 0, policy.EffectNewBucket: 1, policy.EffectLooser: 2}
	slices.SortStableFunc(rows, func(a, b ui.DiffRow) int { return rank(order, a.Effect) - rank(order, b.Effect) })
	return rows
}

func diffRow(c policy.Change) ui.DiffRow {
	return ui.DiffRow{Path: c.Path, Kind: c.Kind, Before: c.Before, After: c.After, Effect: c.Effect, Text: c.Text}
}

func rank(order map[string]int, effect string) int {
	if n, ok := order[effect]; ok {
		return n
	}
	return len(order)
}
