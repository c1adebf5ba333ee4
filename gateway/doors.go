package gateway

import (
	"context"
	"net"
	"net/http"
	"net/netip"
)

// Door is a listener's server that another package brings (the Envoy services).
// It translates and decides nothing: it asks Decide and tells Answer.
type Door interface {
	// Serve answers on l until Shutdown or Close, and returns nil after those.
	Serve(l net.Listener) error
	// Shutdown takes no new calls and waits for those in flight, until ctx ends.
	Shutdown(ctx context.Context) error
	// Close cuts off what is in flight.
	Close() error
}

// Decide is the answer to one request, for doors of other packages. Call it once
// per request; it charges.
func (g *Gateway) Decide(ctx context.Context, in *Inbound) Verdict { return g.decide(ctx, in) }

// DecideInto is Decide for doors that use a verdict again: what v was before, with all
// that it points to, must not be looked at any more.
func (g *Gateway) DecideInto(ctx context.Context, in *Inbound, v *Verdict) { g.decideInto(ctx, in, v) }

// MayAsk reports whether a caller at peer with that token may use a door for
// decisions: anyone on loopback may, others need the decide token.
func (g *Gateway) MayAsk(peer netip.Addr, token string) bool { return g.mayAskFrom(peer, token) }

// Unready lists why no traffic should be sent here; none: it is ready.
func (g *Gateway) Unready() []string { return g.unready() }

// Answer is what the HTTP doors would send for a verdict.
type Answer struct {
	Status int // 200 when admitted
	Header http.Header
	Body   []byte // of a refusal; nil when admitted
}

// Answer tells a verdict in the bytes of the forward-auth door: for an admitted
// request the limits and who is calling, for a refusal its header fields and
// body. origin is the request's Origin header, debug that it asked for debugging.
func (g *Gateway) Answer(v *Verdict, origin string, debug bool) Answer {
	w := &answerWriter{Answer{Status: http.StatusOK, Header: make(http.Header, 16)}}
	if debug {
		g.writeVersion(w.Header(), v)
	}
	if v.Allowed {
		g.writeAdmission(w.Header(), v)
	} else {
		g.writeRefusal(w, v, origin)
	}
	return w.answer
}

// FieldSink takes the header fields of an answer; http.Header is one. No name is set
// twice, nor set after it was added.
type FieldSink interface {
	Set(name, value string)
	Add(name, value string)
}

// WriteFields tells the header fields of Answer alone: for doors that write them into
// messages of their own.
func (g *Gateway) WriteFields(to FieldSink, v *Verdict, origin string, debug bool) {
	if debug {
		g.writeVersion(to, v)
	}
	if v.Allowed {
		g.writeAdmission(to, v)
		return
	}
	g.writeHeaders(to, v)
	writeCORS(to, origin)
	to.Set("Content-Type", v.contentType())
	if !v.Bare {
		to.Set("X-Content-Type-Options", "nosniff")
	}
}

// AppendBody appends the body of Answer.
func (v *Verdict) AppendBody(b []byte) []byte {
	switch {
	case v.Allowed:
		return b
	case v.Bare:
		return append(b, bareBody...)
	}
	p := v.problem()
	return append(p.appendTo(b), '\n')
}

// answerWriter keeps an answer instead of sending it.
type answerWriter struct{ answer Answer }

// Header is the answer's header.
func (w *answerWriter) Header() http.Header { return w.answer.Header }

// WriteHeader notes the status.
func (w *answerWriter) WriteHeader(status int) { w.answer.Status = status }

// Write notes a part of the body.
func (w *answerWriter) Write(p []byte) (int, error) {
	w.answer.Body = append(w.answer.Body, p...)
	return len(p), nil
}
