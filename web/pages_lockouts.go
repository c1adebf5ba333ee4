package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// lockoutRoutes are who is refused now, and what a tenant's limits hold.
func (s *Server) lockoutRoutes(r chi.Router) {
	view := r.With(s.require(console.PermView))
	view.Get("/lockouts", s.page(s.lockoutList))
	view.Get("/live/lockouts", s.page(s.lockoutsLive))
	view.Get("/lockouts/{lockout}", s.page(s.lockoutPage))
	view.Get("/tenants/{tenant}/state", s.page(s.tenantState))

	unlock := r.With(s.require(console.PermUnlock))
	unlock.Post("/lockouts/repair", s.page(s.lockoutRepair))
	unlock.Post("/lockouts/{lockout}/unlock", s.page(s.lockoutUnlock))
	unlock.Post("/lockouts/{lockout}/extend", s.page(s.lockoutExtend))
	unlock.Post("/lockouts/{lockout}/reset", s.page(s.lockoutReset))
	unlock.Post("/lockouts/{lockout}/release", s.page(s.lockoutRelease))
	unlock.Post("/tenants/{tenant}/state/reset", s.page(s.stateReset))
	unlock.Post("/tenants/{tenant}/state/release", s.page(s.stateRelease))
}

// shownStrays is how many keys without a TTL a page names.
const shownStrays = 5

func (s *Server) lockoutList(w http.ResponseWriter, r *http.Request) error {
	return s.lockoutListWith(w, r, http.StatusOK, "", "")
}

func (s *Server) lockoutListWith(w http.ResponseWriter, r *http.Request, status int, problem, kept string) error {
	live, err := s.lockoutsProps(r)
	if err != nil {
		return err
	}
	if live.Strays != nil {
		live.Strays.Problem, live.Strays.Kept = problem, kept
	}
	return s.render(w, r, status, views.Lockouts(views.LockoutsProps{Frame: s.titled(r, "Lockouts"), Live: live}))
}

func (s *Server) lockoutsLive(w http.ResponseWriter, r *http.Request) error {
	live, err := s.lockoutsProps(r)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, views.LockoutsLive(live))
}

func (s *Server) lockoutsProps(r *http.Request) (views.LockoutsLiveProps, error) {
	f := form.Query(r, "kind", "tenant", "limit")
	q := console.LockoutQuery{Kind: console.LockoutKind(f.Get("kind")), Tenant: f.Get("tenant"), Limit: f.Get("limit")}
	list, err := s.Lockouts.List(r.Context(), actor(r), q)
	if err != nil {
		return views.LockoutsLiveProps{}, err
	}
	now := s.Now()
	p := views.LockoutsLiveProps{Now: now, Poll: ui.LockoutsLiveURL(r.URL.RawQuery), Tabs: lockoutTabs(q.Kind, list), Problem: list.Problem,
		Filtered: q != (console.LockoutQuery{}), Strays: s.straysProps(r)}
	if list.Known {
		p.Source = fmt.Sprintf("Redis, live · told by %d of %d gateways", list.Reported, list.Replicas)
		p.Bound = "Refusals are counted since " + ui.Absolute(list.Since) + " and bounded: where two numbers stand, the true one lies between them."
		p.Empty = "Nobody is refused by a limit at the moment."
	}
	if p.Filtered {
		p.Empty = "Nobody of this kind is refused by a limit at the moment."
	}
	if list.Candidates > console.MaxLockouts {
		p.Cut = fmt.Sprintf(" Gateways told of %s subjects; the %d most refused were looked at.", ui.Int(int64(list.Candidates)), console.MaxLockouts)
	}
	for i := range list.Items {
		p.Rows = append(p.Rows, lockoutRow(now, &list.Items[i]))
	}
	return p, nil
}

func (s *Server) straysProps(r *http.Request) *views.StraysProps {
	known := s.Lockouts.Strays()
	if len(known.Keys) == 0 {
		return nil
	}
	p := &views.StraysProps{Count: ui.Int(int64(len(known.Keys))) + " keys", CanRepair: can(r, console.PermUnlock), Looked: "All keys were last looked at " + ui.Ago(s.Now(), known.Whole) + "."}
	if len(known.Keys) == 1 {
		p.Count = "1 key"
	}
	if known.Whole.IsZero() {
		p.Looked = "Not all keys have been looked at yet."
	}
	for _, k := range known.Keys[:min(len(known.Keys), shownStrays)] {
		p.Keys = append(p.Keys, strconv.QuoteToASCII(k.Key)+" "+k.Type)
	}
	return p
}

func lockoutTabs(now console.LockoutKind, list console.LockoutList) []ui.Tab {
	var tabs []ui.Tab
	for _, t := range []struct {
		kind  console.LockoutKind
		label string
	}{{"", "All"}, {console.LockoutTenants, "Tenants"}, {console.LockoutAccounts, "Accounts"}, {console.LockoutIPs, "IPs"}, {console.LockoutGlobal, "Global"}} {
		query, n := "", 0
		for kind, count := range list.Counts {
			if t.kind == "" || t.kind == kind {
				n += count
			}
		}
		if t.kind != "" {
			query = url.Values{"kind": {string(t.kind)}}.Encode()
		}
		label := t.label
		if list.Known {
			label += " " + ui.Int(int64(n))
		}
		tabs = append(tabs, ui.Tab{Label: label, URL: ui.LockoutsURL(query), Current: t.kind == now})
	}
	return tabs
}

func lockoutRow(now time.Time, l *console.Lockout) views.LockoutRow {
	row := views.LockoutRow{URL: ui.LockoutURL(l.ID, ""), Limit: l.Limit, Part: partText(l.Part), Subject: l.Subject, Masked: l.Masked, Route: l.Route,
		First: l.First, Last: l.Last, Why: l.Why, Shared: l.Shared, CanUnlock: l.CanUnlock, Refusals: ui.Int(l.Refusals), Until: "unknown",
		Left: fmt.Sprintf("%s of %s", ui.Int(l.Left), ui.Int(l.Most)), Source: "Redis, " + ui.Ago(now, l.At)}
	if l.Error > 0 {
		row.Refusals = ui.Int(l.Refusals-l.Error) + " to " + ui.Int(l.Refusals)
	}
	if l.Tenant != "" {
		row.Tenant, row.TenantURL = l.TenantName, ui.TenantURL(l.Tenant, "")
		if row.Tenant == "" {
			row.Tenant = l.Tenant
		}
	}
	switch {
	case l.Never:
		row.Until = "never by itself"
	case l.Until != nil:
		row.Until, row.UntilAt = ui.Ago(now, *l.Until), ui.Absolute(*l.Until)
	case l.Part == console.LockoutConcurrency:
		row.Until = "until a place gets free"
	}
	if !l.Verified {
		row.Source, row.Left = "a gateway, "+ui.Ago(now, l.At), "–"
		if l.Never {
			row.Source = "the policy in force"
		}
	}
	return row
}

func partText(p console.LockoutPart) string {
	switch p {
	case console.LockoutConcurrency:
		return "requests at once"
	case console.LockoutQuota:
		return "quota"
	case console.LockoutCredentials:
		return "credentials that are not valid"
	default:
		return "rate"
	}
}

func (s *Server) lockoutPage(w http.ResponseWriter, r *http.Request) error {
	return s.lockoutPageWith(w, r, http.StatusOK, "", nil)
}

// lockoutPageWith shows a lockout, with the form of an act that failed.
func (s *Server) lockoutPageWith(w http.ResponseWriter, r *http.Request, status int, act string, f *form.Form) error {
	id := chi.URLParam(r, "lockout")
	l, held, err := s.Lockouts.OfLockout(r.Context(), actor(r), id)
	p := views.LockoutPageProps{Frame: s.titled(r, "Lockout"), Now: s.Now(), CanAct: can(r, console.PermUnlock)}
	if console.IsNotFound(err) {
		if status == http.StatusOK {
			status = http.StatusNotFound
		}
		p.Over = true
		return s.render(w, r, status, views.LockoutPage(p))
	}
	if err != nil && l.ID == "" {
		return err
	}
	p.Row = lockoutRow(p.Now, &l)
	p.UnlockAction, p.ExtendAction = ui.LockoutURL(id, "unlock"), ui.LockoutURL(id, "extend")
	p.UnlockEffect = unlockEffect(&l)
	if !l.CanUnlock {
		p.NoUnlock = l.Why
	}
	p.CanExtend = l.Part == console.LockoutRate && !l.Never && !l.Shared && l.Kind != console.LockoutGlobal
	if l.Tenant != "" {
		p.ExplainURL = ui.ExplainTenantURL(l.Tenant)
		if can(r, console.PermBoost) && l.Part != console.LockoutCredentials {
			p.BoostURL = ui.TenantURL(l.Tenant, "boost") + "?limit=" + url.QueryEscape(l.Limit)
		}
	}
	p.State = heldProps(r, p.Now, held, err, ui.LockoutURL(id, "reset"), ui.LockoutURL(id, "release"))
	p.ExtendFor = "1h"
	failedAct(&p, act, f)
	return s.render(w, r, status, views.LockoutPage(p))
}

func unlockEffect(l *console.Lockout) string {
	switch {
	case l.Part == console.LockoutCredentials:
		return "Every gateway forgets the refused credentials of this address, and of some others that share its group."
	case l.Shared:
		return fmt.Sprintf("The shared bucket is filled to %s: everybody who is counted in it may use that at once.", ui.Int(l.Most))
	case l.Kind == console.LockoutGlobal:
		return fmt.Sprintf("The bucket of everything together is filled to %s: so much more may reach the upstream at once.", ui.Int(l.Most))
	}
	return fmt.Sprintf("Its bucket is filled from %s to %s, and gateways forget that they refused it. Over any time that is %s more than the limit allows, once.",
		ui.Int(l.Left), ui.Int(l.Most), ui.Int(l.Most-l.Left))
}

// heldProps are limits as Redis has them.
func heldProps(r *http.Request, now time.Time, held []console.HeldLimit, err error, reset, release string) views.HeldStateProps {
	p := views.HeldStateProps{Now: now, CanAct: can(r, console.PermUnlock), ResetAction: reset, ReleaseAction: release, Source: "Redis, live"}
	if err != nil {
		p.Problem, p.Source = "It is unknown what Redis holds.", ""
		if e, ok := errors.AsType[*console.Error](err); ok {
			p.Problem = e.Public
		}
		return p
	}
	for i := range held {
		p.Rows = append(p.Rows, heldStateRow(now, &held[i], p.CanAct))
	}
	return p
}

func heldStateRow(now time.Time, h *console.HeldLimit, canAct bool) views.HeldStateRow {
	unit := "tokens"
	if h.Part == console.LockoutConcurrency {
		unit = "places"
	}
	row := views.HeldStateRow{Limit: h.Limit, Part: partText(h.Part), Used: fmt.Sprintf("%s of %s %s", ui.Int(h.Used), ui.Int(h.Most), unit), Broken: h.Broken,
		Full: "–", Lost: "nothing: there is no state", CanReset: canAct && h.Counts}
	switch {
	case h.Broken:
		row.Used, row.Lost = "unknown: its key holds something else", "what is in the key"
	case h.Counts && h.Part == console.LockoutConcurrency:
		row.Lost = fmt.Sprintf("the count of %s requests under way", ui.Int(h.Used))
	case h.Counts:
		row.Lost = fmt.Sprintf("that %s %s are used", ui.Int(h.Used), unit)
	}
	if h.Full != nil {
		row.Full = ui.Ago(now, *h.Full)
	}
	if len(h.Leases) > 0 {
		row.LeaseCount = fmt.Sprintf("%s taken, %d shown", ui.Int(h.Used), len(h.Leases))
	}
	for _, l := range h.Leases {
		lease := views.LeaseRow{ID: l.ID, Replica: l.Replica, Since: at(l.Since), Ends: ui.Ago(now, l.Ends)}
		if lease.Replica == "" {
			lease.Replica = ui.Unknown
		}
		row.Leases = append(row.Leases, lease)
	}
	return row
}

func (s *Server) tenantState(w http.ResponseWriter, r *http.Request) error {
	return s.tenantStateWith(w, r, http.StatusOK, "", nil)
}

func (s *Server) tenantStateWith(w http.ResponseWriter, r *http.Request, status int, act string, f *form.Form) error {
	id := chi.URLParam(r, "tenant")
	t, err := s.Tenants.Get(r.Context(), id)
	if err != nil {
		return err
	}
	held, err := s.Lockouts.OfTenant(r.Context(), actor(r), id)
	if err != nil && console.CodeOf(err) != console.CodeUnavailable {
		return err
	}
	p := views.TenantStateProps{Frame: s.titled(r, "Limiter state of "+t.Name), Tenant: t.Name, TenantURL: ui.TenantURL(id, ""), ExplainURL: ui.ExplainTenantURL(id),
		State: heldProps(r, s.Now(), held, err, ui.TenantStateURL(id, "reset"), ui.TenantStateURL(id, "release"))}
	p.State.Act, p.State.Form = act, f
	return s.render(w, r, status, views.TenantState(p))
}
