package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/web/api"
)

// fail is the error edge: the public text goes to the user, the cause to the
// log with the request's id, and nothing else anywhere.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, message := http.StatusInternalServerError, "Something went wrong on our side."
	if e, ok := errors.AsType[*console.Error](err); ok && e.Code != console.CodeInternal {
		status, message = api.StatusOf(e.Code), e.Public
		for _, f := range e.Fields {
			message += " " + f.Field + ": " + f.Message + "."
		}
		if e.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter))
		}
	}
	s.logFailure(r, status, err)
	s.refuse(w, r, status, message)
}

// take is form.Take that also takes conflicts and refusals of the whole form
// into the form's message. It returns the status to render the page with, 0
// when err is none of these.
func (s *Server) take(f *form.Form, err error) int {
	e, ok := errors.AsType[*console.Error](err)
	if !ok || e.Code != console.CodeInvalid && e.Code != console.CodeConflict && e.Code != console.CodeRateLimited {
		return 0
	}
	if !f.Take(err) {
		f.Message = e.Public
	}
	return api.StatusOf(e.Code)
}

// statusOf is the status of a service's error.
func statusOf(err error) int { return api.StatusOf(console.CodeOf(err)) }

func (s *Server) logFailure(r *http.Request, status int, err error) {
	args := []any{"request_id", requestID(r.Context()), "method", r.Method, "path", clip(r.URL.Path),
		"status", status, "actor", actor(r).ID, "error", err.Error()}
	switch {
	case status == http.StatusForbidden:
		s.Log.WarnContext(r.Context(), "authz_denied", args...)
	case status >= 500:
		s.Log.ErrorContext(r.Context(), "request failed", args...)
	default:
		s.Log.DebugContext(r.Context(), "request refused", args...)
	}
}

// refuse answers with a status and a text for the user: a problem document for
// the API, a page for everybody else.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, status int, message string) {
	if status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", strconv.Itoa(console.RetryLater))
	}
	if strings.HasPrefix(r.URL.Path, "/api/") {
		writeProblem(w, r, status, message)
		return
	}
	if err := s.render(w, r, status, s.errorPage(r, status, message)); err != nil {
		s.Log.ErrorContext(r.Context(), "render error page", "request_id", requestID(r.Context()), "error", err)
		http.Error(w, message, status)
	}
}

// refusal is refuse with everything but the request known beforehand.
func (s *Server) refusal(status int, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { s.refuse(w, r, status, message) }
}

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	s.refuse(w, r, http.StatusNotFound, "There is no such page.")
}

func (s *Server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	s.refuse(w, r, http.StatusMethodNotAllowed, "This address does not take "+clip(r.Method)+" requests.")
}

// writeProblem answers a request to the API that never reached it.
func writeProblem(w http.ResponseWriter, r *http.Request, status int, detail string) {
	code := strings.ToLower(strings.ReplaceAll(http.StatusText(status), " ", "-"))
	b, _ := json.Marshal(map[string]any{ // only strings and an int: cannot fail
		"type": "https://headgate.dev/problems/" + code, "title": http.StatusText(status), "status": status,
		"detail": detail, "code": code, "request_id": requestID(r.Context()),
	})
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}

// retryAfter is the wait that an error names, in seconds; 0 when it names none.
func retryAfter(err error) int {
	if e, ok := errors.AsType[*console.Error](err); ok {
		return e.RetryAfter
	}
	return 0
}
