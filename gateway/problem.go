package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
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
	Receipt      string   `json:"receipt,omitempty"`
}

// bareBody is the whole body of a refusal that must not tell its cause.
const bareBody = "Too many requests\n"

// exposedHeaders lets a browser's script read what a refusal says.
const exposedHeaders = "RateLimit-Policy, RateLimit, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After, X-Request-Id"

// writeRefusal answers a request that was not admitted. origin is the request's
// Origin header: without the CORS fields a browser would show a refusal as a
// network error.
func (g *Gateway) writeRefusal(w http.ResponseWriter, v *Verdict, origin string) {
	h := &fieldSet{h: w.Header()}
	g.writeHeaders(h, v)
	writeCORS(h, origin)
	if v.Bare {
		h.Set("Content-Type", v.contentType())
		w.WriteHeader(v.Status)
		_, _ = w.Write([]byte(bareBody))
		return
	}
	p := v.problem()
	writeProblemBody(w, h, &p)
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
	p.Receipt = v.Receipt
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
	h := &fieldSet{h: w.Header()}
	h.Set(headerRequestID, requestID)
	writeProblemBody(w, h, &p)
}

// appendTo spells the problem as encoding/json does, without asking it: a flood of
// refusals is mostly these bytes.
func (p *problem) appendTo(b []byte) []byte {
	b = appendText(append(b, `{"type":`...), p.Type)
	b = appendText(append(b, `,"title":`...), p.Title)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(p.Status), 10)
	b = appendText(append(b, `,"detail":`...), p.Detail)
	b = appendText(append(b, `,"code":`...), string(p.Code))
	b = appendText(append(b, `,"request_id":`...), p.RequestID)
	for i, id := range p.Violated {
		if i == 0 {
			b = append(b, `,"violated-policies":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendText(b, id)
	}
	if len(p.Violated) > 0 {
		b = append(b, ']')
	}
	if p.Reason != "" {
		b = appendText(append(b, `,"reason":`...), p.Reason)
	}
	if p.RetryAfterMS != 0 {
		b = strconv.AppendInt(append(b, `,"retry_after_ms":`...), p.RetryAfterMS, 10)
	}
	if p.Receipt != "" {
		b = appendText(append(b, `,"receipt":`...), p.Receipt)
	}
	return append(b, '}')
}

// appendText spells a JSON string.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			raw, _ := json.Marshal(text) // a string can be spelled
			return append(b, raw...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// writeProblemBody answers with a problem.
func writeProblemBody(w http.ResponseWriter, h FieldSink, p *problem) {
	h.Set("Content-Type", "application/problem+json")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(p.appendTo(make([]byte, 0, 512)), '\n')) //nolint:gosec // JSON, in which texts are escaped, and never HTML
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil { // plain structs of strings and integers
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n'))
}

// writeCORS lets the page at origin read the answer. It allows no credentials
// mode: keys travel in headers, cookies are none of ours.
func writeCORS(h FieldSink, origin string) {
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
	return method == http.MethodOptions && header.Get("Upgrade") == "" && header.Get("Origin") != "" && header.Get("Access-Control-Request-Method") != ""
}
