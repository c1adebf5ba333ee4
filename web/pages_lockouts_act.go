package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) lockoutRepair(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "reason")
	n, err := s.Lockouts.RepairStrays(r.Context(), actor(r), f.Get("reason"))
	if err != nil {
		problem, status := s.problemOf(f, err)
		if status == 0 {
			return err
		}
		return s.lockoutListWith(w, r, status, problem, f.Raw("reason"))
	}
	return s.redirect(w, r, ui.LockoutsURL(""), fmt.Sprintf("Repaired %d keys.", n))
}

func (s *Server) lockoutUnlock(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "reason")
	done, err := s.Lockouts.Unlock(r.Context(), actor(r), console.LockoutRef{ID: chi.URLParam(r, "lockout")}, f.Get("reason"))
	if err != nil {
		return s.lockoutFailed(w, r, "unlock", f, err)
	}
	return s.told(w, r, ui.LockoutsURL(""), "unlock", done.Change)
}

func (s *Server) lockoutExtend(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "reason", "for")
	lasting, err := time.ParseDuration(f.Get("for"))
	if err != nil {
		f.Fail("for", "Choose for how long.")
		return s.lockoutPageWith(w, r, http.StatusUnprocessableEntity, "extend", f)
	}
	done, err := s.Lockouts.Extend(r.Context(), actor(r), console.LockoutRef{ID: chi.URLParam(r, "lockout")}, lasting, f.Get("reason"))
	if err != nil {
		return s.lockoutFailed(w, r, "extend", f, err)
	}
	return s.told(w, r, ui.LockoutURL(chi.URLParam(r, "lockout"), ""), "prolong", done.Change)
}

// lockoutFailed shows the lockout again with what was wrong.
func (s *Server) lockoutFailed(w http.ResponseWriter, r *http.Request, act string, f *form.Form, err error) error {
	status := s.take(f, err)
	if status == 0 {
		return err
	}
	return s.lockoutPageWith(w, r, status, act, f)
}

// failedAct puts what was wrong beside the form that it belongs to.
func failedAct(p *views.LockoutPageProps, act string, f *form.Form) {
	if f == nil {
		return
	}
	problem := f.Error("reason")
	for _, text := range []string{f.Error("for"), f.Error("limit"), f.Message} {
		if problem == "" {
			problem = text
		}
	}
	switch act {
	case "unlock":
		p.UnlockKept, p.UnlockFail = f.Raw("reason"), problem
	case "extend":
		p.ExtendKept, p.ExtendFor, p.ExtendFail = f.Raw("reason"), f.Get("for"), problem
	default:
		p.State.Act, p.State.Form = act, f
	}
}

func (s *Server) lockoutReset(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "lockout")
	return s.resetWith(w, r, ui.LockoutURL(id, ""), s.lockoutPageWith, func(ctx context.Context, limits []string, reason string) ([]console.LockoutDone, error) {
		return s.Lockouts.ResetLockout(ctx, actor(r), id, limits, reason)
	})
}

func (s *Server) stateReset(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "tenant")
	return s.resetWith(w, r, ui.TenantStateURL(id, ""), s.tenantStateWith, func(ctx context.Context, limits []string, reason string) ([]console.LockoutDone, error) {
		return s.Lockouts.ResetTenant(ctx, actor(r), id, limits, reason)
	})
}

// pageWith shows a page with the form of an act that failed.
type pageWith func(w http.ResponseWriter, r *http.Request, status int, act string, f *form.Form) error

func (s *Server) resetWith(w http.ResponseWriter, r *http.Request, back string, again pageWith, do func(context.Context, []string, string) ([]console.LockoutDone, error)) error {
	f := form.Parse(r, "reason")
	done, err := do(r.Context(), r.PostForm["limits"], f.Get("reason"))
	if err != nil {
		status := s.take(f, err)
		if status == 0 {
			return err
		}
		return again(w, r, status, "reset", f)
	}
	return s.told(w, r, back, "reset", done[len(done)-1].Change)
}

func (s *Server) lockoutRelease(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "lockout")
	return s.releaseWith(w, r, ui.LockoutURL(id, ""), s.lockoutPageWith, func(ctx context.Context, limit string, leases []string, reason string) (console.LockoutDone, error) {
		return s.Lockouts.ReleaseLockout(ctx, actor(r), id, limit, leases, reason)
	})
}

func (s *Server) stateRelease(w http.ResponseWriter, r *http.Request) error {
	id := chi.URLParam(r, "tenant")
	return s.releaseWith(w, r, ui.TenantStateURL(id, ""), s.tenantStateWith, func(ctx context.Context, limit string, leases []string, reason string) (console.LockoutDone, error) {
		return s.Lockouts.ReleaseTenant(ctx, actor(r), id, limit, leases, reason)
	})
}

func (s *Server) releaseWith(w http.ResponseWriter, r *http.Request, back string, again pageWith, do func(context.Context, string, []string, string) (console.LockoutDone, error)) error {
	f := form.Parse(r, "reason", "limit")
	done, err := do(r.Context(), f.Get("limit"), r.PostForm["lease"], f.Get("reason"))
	if err != nil {
		status := s.take(f, err)
		if status == 0 {
			return err
		}
		return again(w, r, status, "release", f)
	}
	return s.told(w, r, back, "release", done.Change)
}
