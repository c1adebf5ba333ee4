package web

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) boostForm(w http.ResponseWriter, r *http.Request) error {
	f := form.New(map[string]string{"limit": r.URL.Query().Get("limit"), "factor": "2000", "for": "1h"})
	return s.boostFormWith(w, r, http.StatusOK, f)
}

func (s *Server) boostFormWith(w http.ResponseWriter, r *http.Request, status int, f *form.Form) error {
	t, err := s.Overrides.Effective(r.Context(), chi.URLParam(r, "tenant"))
	if err != nil {
		return err
	}
	p := views.BoostFormProps{Frame: s.titled(r, "Boost "+t.Tenant.Name), Form: f, TenantName: t.Tenant.Name, Limits: limitOptions(t),
		Action: ui.TenantURL(t.Tenant.ID, "boost"), Back: ui.TenantURL(t.Tenant.ID, ""),
		Factors: []ui.Option{{Value: "1500", Label: "×1.5"}, {Value: "2000", Label: "×2"}},
		Spans:   []ui.Option{{Value: "15m", Label: "15 minutes"}, {Value: "1h", Label: "1 hour"}, {Value: "4h", Label: "4 hours"}, {Value: "24h", Label: "24 hours"}},
		Bound:   "Your role allows up to ×2 for 24 hours."}
	if can(r, console.PermManageTenants) {
		p.Factors = append(p.Factors, ui.Option{Value: "3000", Label: "×3"}, ui.Option{Value: "5000", Label: "×5"}, ui.Option{Value: "10000", Label: "×10"})
		p.Spans = append(p.Spans, ui.Option{Value: "168h", Label: "7 days"}, ui.Option{Value: "720h", Label: "30 days"})
		p.Bound = "Up to ×10 for 30 days."
	}
	if l, ok := t.Find(f.Get("limit")); ok {
		p.Now = "In force now: " + l.Now().Text + ", from " + l.Now().Source + "."
	}
	return s.render(w, r, status, views.BoostForm(p))
}

func (s *Server) boostSet(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "tenant")
	f := form.Parse(r, "limit", "factor", "for", "reason", "back")
	factor, err := strconv.ParseInt(f.Get("factor"), 10, 64)
	if err != nil {
		f.Fail("factor", "Choose a factor.")
	}
	span, err := time.ParseDuration(f.Get("for"))
	if err != nil {
		f.Fail("for", "Choose for how long.")
	}
	if !f.OK() {
		return s.boostFormWith(w, r, http.StatusUnprocessableEntity, f)
	}
	set, err := s.Overrides.Boost(r.Context(), actor(r), id, console.NewBoost{Limit: f.Get("limit"), FactorMilli: factor, For: span, Reason: f.Get("reason")})
	if err != nil {
		if status := s.take(f, err); status != 0 {
			return s.boostFormWith(w, r, status, f)
		}
		return err
	}
	back := ui.TenantURL(id, "")
	if f.Get("back") == "explain" {
		back = ui.ExplainTenantURL(id)
	}
	return s.told(w, r, back, "boost", set.Change)
}

func (s *Server) overrideForm(w http.ResponseWriter, r *http.Request) error {
	return s.overrideFormWith(w, r, http.StatusOK, form.New(map[string]string{"limit": r.URL.Query().Get("limit")}), "")
}

func (s *Server) overrideFormWith(w http.ResponseWriter, r *http.Request, status int, f *form.Form, askLower string) error {
	t, err := s.Overrides.Effective(r.Context(), chi.URLParam(r, "tenant"))
	if err != nil {
		return err
	}
	p := views.OverrideFormProps{Frame: s.titled(r, "A value of its own"), Now: s.Now(), Form: f, TenantName: t.Tenant.Name, Limits: limitOptions(t),
		Action: ui.TenantURL(t.Tenant.ID, "override"), Back: ui.TenantURL(t.Tenant.ID, "overrides"), AskLower: askLower}
	if l, ok := t.Find(f.Get("limit")); ok && l.Own {
		p.Limit, p.Kind = heldRow(l), string(l.Kind)
	} else if f.Get("limit") != "" {
		f.Fail("limit", "This tenant meets no limit of this name that can have another value.")
		status = http.StatusUnprocessableEntity
	}
	return s.render(w, r, status, views.OverrideForm(p))
}

func (s *Server) overrideSet(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "tenant")
	f := form.Parse(r, "limit", "rate", "burst", "amount", "max", "expires_at", "reason", "lower")
	in := console.NewOverride{Limit: f.Get("limit"), Rate: f.Get("rate"), Burst: wholeOf(f, "burst"), Amount: wholeOf(f, "amount"), Max: wholeOf(f, "max"),
		Reason: f.Get("reason"), Lower: f.Get("lower") == "yes"}
	var ok bool
	if in.ExpiresAt, ok = endOfDay(f); !ok || !f.OK() {
		return s.overrideFormWith(w, r, http.StatusUnprocessableEntity, f, "")
	}
	set, err := s.Overrides.Set(r.Context(), actor(r), id, in)
	if err != nil {
		status := s.take(f, err)
		if status == 0 {
			return err
		}
		ask := ""
		for _, c := range confirmationsOf(err) {
			if c.Code == console.ConfirmLower {
				ask = c.Text
			}
		}
		return s.overrideFormWith(w, r, status, f, ask)
	}
	return s.told(w, r, ui.TenantURL(id, "overrides"), "set", set.Change)
}

// wholeOf reads a whole number of a form; nil when the field was left out.
func wholeOf(f *form.Form, name string) *int64 {
	v := strings.NewReplacer(" ", "", "\u202f", "").Replace(f.Get(name))
	if v == "" {
		return nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		f.Fail(name, fmt.Sprintf("Write a whole number such as %d.", 1000))
		return nil
	}
	return &n
}
