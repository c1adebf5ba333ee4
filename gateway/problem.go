package gateway

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/headgate/headgate/limiter"
)

// problem is the body of a refusal (RFC 9457).
type problem struct {
	Type         string   `json:"type"`
	Title        string   `json:"title"`
	Status       int      `json:"status"`
	Detail       string   `json:"detail"`
	Code         Code     `json:"code"`
	RequestID    string   `json:"request_id"`
	Violated     []string `json:"violated-policies,omitempty"`
	Reason       string   `json:"reason,omitempty"`
	RetryAfterMS int64    `json:"retry_after_ms,omitempty"`
}

// bareBody is the whole body of a refusal that must not tell its cause.
const bareBody = "Too many requests\n"

// exposedHeaders lets a browser's script read what a refusal says.
const exposedHeaders = "RateLimit-Policy, RateLimit, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After, X-Request-Id"

// writeRefusal answers a request that was not admitted. origin is the request's
// Origin header: without the CORS fields a browser would show a refusal as a
// network error.
func (g *Gateway) writeRefusal(w http.ResponseWriter, v *Verdict, origin string) {
	h := w.Header()
	g.writeHeaders(h, v)
	writeCORS(h, origin)
	if v.Bare {
		h.Set("Content-Type", v.contentType())
		w.WriteHeader(v.Status)
		_, _ = w.Write([]byte(bareBody))
		return
	}
	writeBody(w, v.Status, v.contentType(), v.problem())
}

// contentType is that of a refusal's body.
func (v *Verdict) contentType() string {
	if v.Bare {
		return "text/plain; charset=utf-8"
	}
	return "application/problem+json"
}

// problem is the verdict's body.
func (v *Verdict) problem() problem {
	p := newProblem(v.Code, v.RequestID)
	if v.Detail != "" {
		p.Detail = v.Detail
	}
	if v.Code != CodeQuotaExceeded {
		return p
	}
	p.RetryAfterMS = v.retryAfterMillis()
	p.Reason = string(v.Reason)
	for i := range v.Limits {
		if v.Limits[i].violated() {
			p.Violated = append(p.Violated, v.Limits[i].ID)
		}
	}
	if v.Reason == limiter.ReasonFallback {
		p.Detail = "The limits cannot be asked at the moment, and what this gateway admits without them is used up."
	}
	return p
}

func newProblem(code Code, requestID string) problem {
	r := refusalOf(code)
	return problem{Type: problemType(code), Title: r.title, Status: r.status, Detail: r.detail, Code: code, RequestID: requestID}
}

// writeProblem answers with a code that no verdict stands behind. detail, when
// set, says more than the table.
func writeProblem(w http.ResponseWriter, code Code, requestID, detail string) {
	p := newProblem(code, requestID)
	if detail != "" {
		p.Detail = detail
	}
	w.Header().Set(headerRequestID, requestID)
	writeBody(w, p.Status, "application/problem+json", p)
}

func writeBody(w http.ResponseWriter, status int, contentType string, body any) {
	raw, err := json.Marshal(body)
	if err != nil { // plain structs of strings and integers
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n'))
}

// writeCORS lets the page at origin read the answer. It allows no credentials
// mode: keys travel in headers, cookies are none of ours.
func writeCORS(h http.Header, origin string) {
	if origin == "" || len(origin) > 512 || strings.ContainsAny(origin, "\r\n,") {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", exposedHeaders)
	h.Add("Vary", "Origin")
}

// isPreflight recognises a CORS preflight (Fetch, 4.8). It asks for permission
// and does nothing, so it is free; a plain OPTIONS is not one, nor is one that
// wants its connection for something else.
func isPreflight(method string, header http.Header) bool {
	return header.Get("Upgrade") == "" && method == http.MethodOptions && header.Get("Origin") != "" && header.Get("Access-Control-Request-Method") != ""
}
