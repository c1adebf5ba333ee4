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

// Fields are the header fields of Answer alone: for doors that need no body, and
// cheaper.
func (g *Gateway) Fields(v *Verdict, origin string, debug bool) http.Header {
	h := make(http.Header, 16)
	if debug {
		g.writeVersion(h, v)
	}
	if v.Allowed {
		g.writeAdmission(h, v)
		return h
	}
	g.writeHeaders(h, v)
	writeCORS(h, origin)
	h.Set("Content-Type", v.contentType())
	if !v.Bare {
		h.Set("X-Content-Type-Options", "nosniff")
	}
	return h
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
