package web

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/views/ui"
)

// pageRoutes are overview, tenants, keys, rotations, gateways and a tenant's own
// page. What is polled stands under /live/ and at /strip; it is a part of a
// page, never a page.
func (s *Server) pageRoutes(r chi.Router) {
	view := r.With(s.require(console.PermView))
	view.Get("/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, ui.OverviewURL(), http.StatusSeeOther)
	})
	view.Get("/strip", s.page(s.strip))
	view.Get("/overview", s.page(s.overview))
	view.Get("/live/overview", s.page(s.overviewLive))
	view.Get("/explain", s.page(s.explainPage))
	view.Post("/explain", s.page(s.explainPost))
	view.Post("/find/list", s.page(s.findList))
	view.Get("/gateways", s.page(s.gatewayList))
	view.Get("/live/gateways", s.page(s.gatewaysLive))
	view.Get("/live/changes/{change}/{act}", s.page(s.changeLive))
	view.Get("/routes", s.page(s.routeList))
	view.Get("/plans", s.page(s.planList))
	s.tenantRoutes(r)
	s.keyRoutes(r)
	s.memberRoutes(r)
	s.overrideRoutes(r)
	s.lockoutRoutes(r)
	s.bulkRoutes(r)
	s.usageRoutes(r)
	s.advisorRoutes(r)
	s.alertRoutes(r)
	export := r.With(s.require(console.PermExport))
	export.Get("/tenants.csv", s.page(s.tenantExport))
	export.Get("/keys.csv", s.page(s.keyExport))
}

func (s *Server) tenantRoutes(r chi.Router) {
	view := r.With(s.require(console.PermView))
	view.Get("/tenants", s.page(s.tenantList))
	view.Get("/tenants/{tenant}", s.page(s.tenantSummary))
	view.Get("/tenants/{tenant}/keys", s.page(s.tenantKeys))
	view.Get("/tenants/{tenant}/usage", s.page(s.tenantUsagePage))
	view.Get("/live/tenants/{tenant}", s.page(s.tenantLive))
	r.With(s.require(console.PermViewAudit)).Get("/tenants/{tenant}/audit", s.page(s.tenantAudit))

	manage := r.With(s.require(console.PermManageTenants))
	manage.Get("/tenants/new", s.page(s.tenantNew))
	manage.Post("/tenants", s.page(s.tenantCreate))
	manage.Get("/tenants/{tenant}/edit", s.page(s.tenantEdit))
	manage.Post("/tenants/{tenant}/edit", s.page(s.tenantUpdate))
	manage.Post("/tenants/{tenant}/suspend", s.page(s.tenantSuspend))
	manage.Post("/tenants/{tenant}/resume", s.page(s.tenantResume))
	manage.Post("/tenants/{tenant}/delete", s.page(s.tenantDelete))
}

func (s *Server) keyRoutes(r chi.Router) {
	view := r.With(s.require(console.PermView))
	view.Get("/keys", s.page(s.keyList))
	view.Get("/keys/{kid}", s.page(s.keyPage))
	view.Get("/rotations", s.page(s.rotationList))
	view.Get("/rotations/{rotation}", s.page(s.rotationPage))
	view.Get("/live/rotations/{rotation}", s.page(s.rotationLive))

	view.Get("/leaks", s.page(s.leakList))
	view.Post("/leaks/find", s.page(s.leakFind))
	r.With(s.require(console.PermOwnSessions)).Post("/leaks/token", s.page(s.leakToken))
	view.Post("/find", s.page(s.find))

	manage := r.With(s.require(console.PermManageKeys))
	manage.Post("/leaks/contain", s.page(s.leakContain))
	manage.Post("/leaks/{case}/dismiss", s.page(s.leakDismiss))
	manage.Get("/tenants/{tenant}/keys/new", s.page(s.credentialNew))
	manage.Post("/tenants/{tenant}/keys", s.page(s.credentialIssue))
	manage.Post("/keys/{kid}/revoke", s.page(s.keyRevoke))
	manage.Post("/keys/{kid}/suspend", s.page(s.keySuspend))
	manage.Post("/keys/{kid}/resume", s.page(s.keyResume))
	manage.Get("/credentials/{credential}/rotate", s.page(s.rotationNew))
	manage.Post("/credentials/{credential}/rotate", s.page(s.rotationStart))
	manage.Post("/rotations/{rotation}/end", s.page(s.rotationEnd))
	manage.Post("/rotations/{rotation}/extend", s.page(s.rotationExtend))
	manage.Post("/rotations/{rotation}/cancel", s.page(s.rotationCancel))
	manage.Post("/rotations/{rotation}/brownout", s.page(s.brownoutStart))
	manage.Post("/rotations/{rotation}/brownout/stop", s.page(s.brownoutStop))
}

// overrideRoutes are tenants' own values and boosts. Who may boost may end and
// extend boosts; the service refuses the rest.
func (s *Server) overrideRoutes(r chi.Router) {
	view := r.With(s.require(console.PermView))
	view.Get("/overrides", s.page(s.overrideList))
	view.Get("/overrides/{override}", s.page(s.overridePage))
	view.Get("/tenants/{tenant}/overrides", s.page(s.tenantOverrides))

	boost := r.With(s.require(console.PermBoost))
	boost.Get("/tenants/{tenant}/boost", s.page(s.boostForm))
	boost.Post("/tenants/{tenant}/boost", s.page(s.boostSet))
	boost.Post("/overrides/{override}/end", s.page(s.overrideEnd))
	boost.Post("/overrides/{override}/extend", s.page(s.overrideExtend))

	manage := r.With(s.require(console.PermManageTenants))
	manage.Get("/tenants/{tenant}/override", s.page(s.overrideForm))
	manage.Post("/tenants/{tenant}/override", s.page(s.overrideSet))
	manage.Get("/tenants/{tenant}/grant", s.page(s.grantForm))
	manage.Post("/tenants/{tenant}/grant", s.page(s.grantGive))
}

// bulkRoutes are jobs over many rows. Each kind needs a permission of its own as
// well, which the service asks for.
func (s *Server) bulkRoutes(r chi.Router) {
	view := r.With(s.require(console.PermView))
	view.Get("/bulk", s.page(s.bulkList))
	view.Get("/bulk/{job}", s.page(s.bulkPage))
	view.Get("/live/bulk/{job}", s.page(s.bulkLive))

	manage := r.With(s.require(console.PermManageKeys))
	manage.Get("/bulk/new", s.page(s.bulkNew))
	manage.Post("/bulk", s.page(s.bulkCreate))
	manage.Post("/bulk/{job}/start", s.page(s.bulkStart))
	manage.Post("/bulk/{job}/cancel", s.page(s.bulkCancel))
}

// usageRoutes are the pages of the ledger.
func (s *Server) usageRoutes(r chi.Router) {
	view := r.With(s.require(console.PermView))
	view.Get("/usage", s.page(s.usagePage))
	view.Get("/usage/standing", s.page(s.usageStanding))
	view.Get("/usage/periods", s.page(s.usagePeriods))
	view.Get("/usage/periods/{period}", s.page(s.usagePeriod))
	view.Get("/usage/reconciliation", s.page(s.reconciliation))

	export := r.With(s.require(console.PermExport))
	export.Get("/usage.csv", s.page(s.usageFile("csv")))
	export.Get("/usage.jsonl", s.page(s.usageFile("jsonl")))

	manage := r.With(s.require(console.PermManageTenants))
	manage.Post("/usage/held/{held}/{act}", s.page(s.usageHeldAct))
	manage.Post("/usage/periods", s.page(s.usagePeriodClose))
}
