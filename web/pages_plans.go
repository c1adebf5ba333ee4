package web

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) planList(w http.ResponseWriter, r *http.Request) error {
	in, err := s.inForce(r.Context())
	if err != nil {
		return err
	}
	counts, err := s.Tenants.CountByPlan(r.Context())
	if err != nil {
		return err
	}
	p := views.PlanListProps{Frame: s.titled(r, "Plans"), Version: in.label()}
	var names []string
	if in.Compiled != nil {
		names = planNames(in.Compiled.Document)
	}
	known := len(names)
	var gone []string
	for name := range counts {
		if !slices.Contains(names, name) {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	for i, name := range append(names, gone...) {
		row := views.PlanUse{PlanRow: views.PlanRow{Name: name}, Tenants: ui.Int(counts[name]),
			TenantsURL: ui.TenantsURL() + "?plan=" + url.QueryEscape(name), Gone: i >= known && in.Compiled != nil}
		if counts[name] > 0 && can(r, console.BulkChangePlan.Needs()) {
			row.MoveURL = ui.BulkNewURL(string(console.BulkChangePlan)) + "&plan=" + url.QueryEscape(name)
		}
		if i < known {
			plan := in.Compiled.Document.Plans[name]
			row.Description, row.Limits = plan.Description, limitRows(plan.Limits)
			if plan.Quota != nil {
				row.Quota = quotaText(plan.Quota) + shadowText(plan.Quota.Mode)
			}
		}
		p.Rows = append(p.Rows, row)
	}
	return s.render(w, r, http.StatusOK, views.PlanList(p))
}
