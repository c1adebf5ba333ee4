package web

import (
	"net/http"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// tenantDelete ends a tenant for good, once its name was typed.
func (s *Server) tenantDelete(w http.ResponseWriter, r *http.Request) error {
	t, in, head, err := s.tenantHead(r, "")
	if err != nil {
		return err
	}
	f := form.Parse(r, "name", "reason")
	if t.State != policy.TenantDeleted && f.Get("name") != t.Name {
		f.Fail("name", "This is not the tenant's name.")
		return s.tenantSummaryOf(w, r, http.StatusUnprocessableEntity, t, in, head, f)
	}
	change, err := s.Tenants.Delete(r.Context(), actor(r), t.ID, f.Get("reason"))
	if err != nil {
		if status := s.take(f, err); status != 0 {
			return s.tenantSummaryOf(w, r, status, t, in, head, f)
		}
		return err
	}
	return s.told(w, r, ui.TenantURL(t.ID, ""), "delete", change)
}

// tenantDeletion is the form that deletes a tenant, with what that does now; f
// is what was typed before, if anything.
func (s *Server) tenantDeletion(r *http.Request, t console.Tenant, f *form.Form) (*views.TenantDeletion, error) {
	list, err := s.Keys.ListCredentials(r.Context(), t.ID)
	if err != nil {
		return nil, err
	}
	live := 0
	for _, c := range list {
		for _, v := range c.Versions {
			if v.Live() {
				live++
			}
		}
	}
	effect := counted(live, "key") + " will be refused with 401 on every gateway within a second, for good; rotations under way end. "
	if live == 0 {
		effect = "It has no working key. "
	}
	p := &views.TenantDeletion{Effect: effect + "Its events stay in the audit trail. This cannot be undone."}
	if f != nil {
		p.Name, p.NameError, p.Message = f.Raw("name"), f.Error("name"), f.Message
		p.Reason, p.ReasonError, p.Open = f.Raw("reason"), f.Error("reason"), true
	}
	return p, nil
}
