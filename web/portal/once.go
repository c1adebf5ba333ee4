package portal

import (
	"net/http"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
)

// A form that makes a key carries a token that is made when the form is shown.
// The first submission claims it; a repeat makes nothing and shows no secret.

// claim takes the form's token; it is an error when it is missing or taken.
func (s *Server) claim(r *http.Request, v *visit, scope string, f *form.Form, fields ...string) error {
	token, sum, ok := f.Claim(r, scope, fields...)
	if !ok {
		return &console.Error{Code: console.CodeInvalid, Public: "This form is incomplete. Open it again and send it from there."}
	}
	fresh, _, err := s.Idempotency.Claim(r.Context(), v.actor, scope, token, sum)
	if err != nil || fresh {
		return err
	}
	return &console.Error{Code: console.CodeConflict, Public: "This form was sent before, and nothing was done twice. A key is shown only in the answer to the first time; if it was lost, rotate it."}
}

// claimed notes how a claimed form ended: one that had no effect may be sent again.
func (s *Server) claimed(r *http.Request, v *visit, scope, token string, err error) {
	var note error
	switch {
	case err == nil:
		note = s.Idempotency.Finish(r.Context(), v.actor, scope, token, []byte("{}"))
	case console.HadNoEffect(err):
		note = s.Idempotency.Release(r.Context(), v.actor, scope, token)
	}
	if note != nil {
		s.Log.WarnContext(r.Context(), "keep form token", "request_id", s.RequestID(r.Context()), "error", note)
	}
}
