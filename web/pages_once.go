package web

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
)

// A form that makes something carries a token that is made when the form is
// shown. The first submission claims it; a repeat (a double click, a reload of
// the answer) makes nothing and is told what the first one made, never its secret.

// made is what a claimed form made, kept for repeats. It never holds a secret.
type made struct {
	URL   string `json:"url"`
	Label string `json:"label"`
}

// once is the claim of one submission.
type once struct {
	s     *Server
	actor console.Actor
	scope string
	token string
}

// claim takes the form's token for scope. When the submission is a repeat it
// answers it (409) and returns false; so it does when the form has no token.
func (s *Server) claim(w http.ResponseWriter, r *http.Request, scope string, f *form.Form, fields ...string) (once, bool, error) {
	token, sum, ok := f.Claim(r, scope, fields...)
	o := once{s: s, actor: actor(r), scope: scope, token: token}
	if !ok {
		return o, false, &console.Error{Code: console.CodeInvalid, Public: "This form is incomplete. Open it again and send it from there."}
	}
	fresh, earlier, err := s.Idempotency.Claim(r.Context(), o.actor, scope, token, sum)
	if err != nil || fresh {
		return o, fresh, err
	}
	return o, false, s.replay(w, r, earlier)
}

// done keeps what was made for repeats.
func (o once) done(r *http.Request, m made) error {
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode what %s made: %w", o.scope, err)
	}
	return o.s.Idempotency.Finish(r.Context(), o.actor, o.scope, o.token, b)
}

// failed gives the token back, so that the corrected form may use it. Where
// nobody knows what was done, the token stays taken.
func (o once) failed(r *http.Request, err error) {
	if !console.HadNoEffect(err) {
		return
	}
	if err := o.s.Idempotency.Release(r.Context(), o.actor, o.scope, o.token); err != nil {
		o.s.Log.WarnContext(r.Context(), "release form token", "request_id", requestID(r.Context()), "error", err)
	}
}

// replay answers a repeat.
func (s *Server) replay(w http.ResponseWriter, r *http.Request, earlier []byte) error {
	p := views.ReplayProps{Frame: s.titled(r, "Already done"), Title: "This was already done"}
	if len(earlier) == 0 {
		p.Title, p.Running = "This is being done", true
		p.Text = "The same form was sent a moment ago and is still being worked on. Nothing is done twice. " +
			"If this page says so for longer than a minute, the console was stopped meanwhile: look whether the thing is there. A key that is can be used, but its secret is not shown again: rotate it."
		return s.render(w, r, http.StatusConflict, views.Replay(p))
	}
	var m made
	if err := json.Unmarshal(earlier, &m); err != nil {
		return fmt.Errorf("decode what an earlier submission made: %w", err)
	}
	p.URL, p.Label = m.URL, m.Label
	p.Text = "The same form was sent before, and nothing was done twice. A key is shown only in the answer to the first time; if it was lost, rotate it or issue another."
	return s.render(w, r, http.StatusConflict, views.Replay(p))
}
