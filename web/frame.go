package web

import (
	"net/http"
	"strings"

	"github.com/a-h/templ"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// frame is what stands around a page: strip, rail, flash. It reads the health
// snapshot, which never waits for anything.
func (s *Server) frame(r *http.Request) ui.FrameProps {
	p := ui.FrameProps{Environment: s.Environment, Path: r.URL.Path, Facts: s.facts(r)}
	if in, ok := signedInFrom(r.Context()); ok {
		p.Operator, p.Role = in.operator.Name, string(in.operator.Role)
		p.Flash = parseFlash(in.flash)
	}
	p.Pending = s.pendingOf(r)
	if !can(r, console.PermViewAudit) {
		p.Hidden = append(p.Hidden, ui.AuditURL())
	}
	if !can(r, console.PermManageRules) {
		p.Hidden = append(p.Hidden, ui.RulesURL())
	}
	return p
}

// titled is frame with the page's title.
func (s *Server) titled(r *http.Request, title string) ui.FrameProps {
	p := s.frame(r)
	p.Title = title
	return p
}

// facts are the numbers of the status strip.
func (s *Server) facts(r *http.Request) ui.Facts {
	h := s.Fleet.Health(r.Context())
	f := ui.Facts{
		Now: s.Now(), PolicyVersion: h.Version,
		InSync: h.InSync, Replicas: h.Of, ReplicasKnown: h.FleetKnown, NACKs: h.Nacked, CutOff: h.Degraded,
		RedisKnown: !h.At.IsZero(), RedisUp: h.RedisUp, RedisRTT: h.RedisRTT, RedisSince: h.RedisSince,
		PostgresDown: !h.At.IsZero() && !h.PostgresUp,
		Drafts:       h.Drafts, PolicyDiffers: h.PolicyDiffers,
		OnCanary: h.OnCanary, ViaConsole: h.ViaConsole, Behind: h.Behind,
	}
	if h.Rollout != nil {
		f.Canary = h.Rollout.Version
	}
	f.Reviews, f.ReviewsKnown = s.reviewCount(r)
	for _, rep := range h.Replicas {
		if rep.Status == console.StatusSilent {
			f.Silent++
		}
	}
	for _, hazard := range h.Hazards {
		if hazard.Severity != policy.SeverityRed {
			break // the worst come first
		}
		if f.Hazards++; f.Hazard == "" {
			f.Hazard = hazard.Server + ": " + hazard.Text
		}
	}
	s.liveFacts(&f)
	f.Lockouts, f.LockoutsAt, f.LockoutsKnown = s.Lockouts.Count()
	s.alertFacts(r, &f)
	return f
}

// errorPage is the page of a refusal, in the frame for those who are signed in.
func (s *Server) errorPage(r *http.Request, status int, message string) templ.Component {
	p := views.ErrorProps{Frame: s.titled(r, http.StatusText(status)), Status: status,
		Title: http.StatusText(status), Message: message, RequestID: requestID(r.Context())}
	// Two slashes at the start would lead to another host.
	if again := r.URL.RequestURI(); status == http.StatusServiceUnavailable && r.Method == http.MethodGet && !strings.HasPrefix(again, "//") {
		p.RetryURL = again
	}
	return views.ErrorPage(p)
}
