package web

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views/ui"
	"github.com/headgate/headgate/web/api"
	"github.com/headgate/headgate/web/portal"
)

// newPortal makes the tenants' own pages.
func (s *Server) newPortal() (*portal.Server, error) {
	return portal.New(portal.Deps{
		Portal: s.Portal, Members: s.Members, Sessions: s.MemberSessions, Asks: s.Asks, Alerts: s.Alerts, Overrides: s.Overrides, Ledger: s.Ledger, Quotas: s.Quotas, Rotations: s.Rotations, Fleet: s.Fleet,
		Activity: s.Activity, Idempotency: s.Idempotency, StatusOf: api.StatusOf, RequestID: requestID, Log: s.Log, Now: s.Now,
		PublicURL: s.public, SecureCookies: s.SecureCookies,
		InForce: func(ctx context.Context) (*policy.Compiled, error) {
			in, err := s.inForce(ctx)
			return in.Compiled, err
		},
	})
}

// selfRoutes are the tenants' own pages: for members, whose sessions the portal
// reads itself, and read-only for operators.
func (s *Server) selfRoutes(r chi.Router, own *portal.Server) {
	r.With(s.open()).Handle(portal.Base, own)
	r.With(s.open()).Handle(portal.Base+"/*", own)
	as := r.With(s.require(console.PermViewAsTenant))
	look := s.page(s.viewAs(own))
	as.Get("/tenants/{tenant}/view-as", look)
	as.Get("/tenants/{tenant}/view-as/*", look)
}

// viewAs shows a tenant's own pages to an operator. Each opening of one is
// recorded, however it came about; the polls that follow are part of the same look.
func (s *Server) viewAs(own *portal.Server) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		id := chi.URLParam(r, "tenant")
		base := ui.ViewAsURL(id)
		if r.URL.Path != base+"/now" {
			if _, err := s.Tenants.RecordView(r.Context(), actor(r), id); err != nil {
				return err
			}
		}
		own.Look(w, r, portal.Look{Actor: actor(r), TenantID: id, Base: base, Back: ui.TenantURL(id, "")}, strings.TrimPrefix(r.URL.Path, base))
		return nil
	}
}
