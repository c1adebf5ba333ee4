package web

import (
	"net/http"
	"strings"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// planPreview shows what another plan changes for a tenant before it is saved;
// false when there is nothing to show, or it was shown.
func (s *Server) planPreview(w http.ResponseWriter, r *http.Request, f *form.Form, t console.Tenant) (bool, error) {
	to := f.Get("plan")
	if to == t.Plan || to == "" || to == f.Get("seen_plan") || t.State == policy.TenantDeleted {
		return false, nil
	}
	change, err := s.Overrides.PlanChange(r.Context(), t.ID, to)
	if console.CodeOf(err) == console.CodeInvalid {
		return false, nil // saving says what is wrong with it
	}
	if err != nil {
		return false, err
	}
	if len(change.Limits)+len(change.Unused)+len(change.Regain) == 0 {
		return false, nil
	}
	f.Value["seen_plan"] = to
	f.Message = "Not saved yet: another plan changes what is below. Save again to go on."
	return true, s.tenantForm(w, r, http.StatusUnprocessableEntity, f, &t, previewRows(change)...)
}

// previewRows are what another plan changes for a tenant.
func previewRows(c console.PlanChange) []ui.DiffRow {
	var rows []ui.DiffRow
	for _, l := range c.Limits {
		row := ui.DiffRow{Path: l.ID, Kind: "changed", Effect: "looser"}
		if l.Before != nil {
			row.Before = l.Before.Now().Text
		}
		if l.After != nil {
			row.After = l.After.Now().Text
		}
		if l.Tighter {
			row.Effect = "tighter"
		}
		rows = append(rows, row)
	}
	for _, o := range c.Unused {
		rows = append(rows, ui.DiffRow{Path: o.Limit, Kind: "changed", Before: overrideText(o.Override), After: "without effect", Text: "the tenant's own value"})
	}
	for _, o := range c.Regain {
		rows = append(rows, ui.DiffRow{Path: o.Limit, Kind: "changed", Before: "without effect", After: overrideText(o.Override), Text: "the tenant's own value"})
	}
	return rows
}

// contactsOf are the addresses that were typed, separated by commas.
func contactsOf(f *form.Form) []string {
	var list []string
	for c := range strings.SplitSeq(f.Get("contacts"), ",") {
		if c = strings.TrimSpace(c); c != "" {
			list = append(list, c)
		}
	}
	return list
}

// quotaRows is the quota of a plan, if it has one.
func quotaRows(c *policy.Compiled, plan string) []views.EffectiveRow {
	q := c.Quotas[plan]
	if q == nil {
		return nil
	}
	row := views.EffectiveRow{ID: q.ID, Applies: "every route", Rate: quotaText(q.Quota), Burst: "–", Per: string(policy.PerTenant),
		Counts: string(q.Counts), Cost: "its cost", Source: q.Source, Shadow: q.Shadow}
	if q.Counts == policy.CountsRequests {
		row.Cost = "1"
	}
	return []views.EffectiveRow{row}
}
