package gateway

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate/gateway/dimension"
	"github.com/headgate/headgate/policy"
)

// maxDecideBody bounds the body of POST /v1/decide, in bytes.
const maxDecideBody = 64 << 10

// maxCost is the largest burst that a limit can have: no more could ever be paid.
const maxCost = 1<<48 - 1

// DecideHandler serves the decisions door: /v1/check and /v1/decide for proxies
// and services that one trusts.
func (g *Gateway) DecideHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/check", g.serveCheck)
	mux.HandleFunc("POST /v1/decide", g.serveDecide)
	mux.HandleFunc("POST /v1/release", g.serveRelease)
	mux.HandleFunc("POST /v1/settle", g.serveSettle)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.mayAsk(r) {
			finishBody(w, r)
			writeProblem(w, CodeForbiddenCaller, requestID(r.Header, false), "")
			return
		}
		switch r.URL.Path {
		case "/v1/check", "/v1/decide", "/v1/release", "/v1/settle":
		default:
			finishBody(w, r)
		}
		mux.ServeHTTP(w, r)
	})
}

// mayAsk reports whether the caller may use the decisions door. The token has a
// header of its own because Authorization carries the key that is asked about.
func (g *Gateway) mayAsk(r *http.Request) bool {
	return g.mayAskFrom(peerAddress(r.RemoteAddr), r.Header.Get(headerToken))
}

func (g *Gateway) mayAskFrom(peer netip.Addr, token string) bool {
	if plain(peer).IsLoopback() {
		return true
	}
	return g.cfg.DecideToken != "" && subtle.ConstantTimeCompare([]byte(token), []byte(g.cfg.DecideToken)) == 1
}

// question is the body of POST /v1/decide.
type question struct {
	Key, Tenant, User, Method, Host, Path, IP string
	Headers                                   headerValues
	Body                                      *string
	Cost                                      json.RawMessage
}

// decision is the answer to it.
type decision struct {
	Allowed      bool              `json:"allowed"`
	Degraded     bool              `json:"degraded"`
	Status       int               `json:"status"`
	Reason       string            `json:"reason,omitempty"`
	Code         Code              `json:"code,omitempty"`
	Tenant       string            `json:"tenant,omitempty"`
	Credential   string            `json:"credential,omitempty"`
	Route        string            `json:"route,omitempty"`
	Version      int64             `json:"version"`
	Cost         int64             `json:"cost,omitempty"`
	Limits       []limitAnswer     `json:"limits"`
	Shadows      []limitAnswer     `json:"shadows,omitempty"` // where debugging is allowed and asked for
	RetryAfterMS int64             `json:"retry_after_ms,omitempty"`
	Receipt      string            `json:"receipt,omitempty"`
	Lease        string            `json:"lease,omitempty"` // for /v1/release and /v1/settle
	RequestID    string            `json:"request_id"`
	Headers      map[string]string `json:"headers"`
}

// limitAnswer is one limit. Limit, Remaining and ResetMS are left out where
// nothing is counted (Unlimited).
type limitAnswer struct {
	ID        string     `json:"id"`
	Kind      LimitKind  `json:"kind"`
	Limit     int64      `json:"limit"`     // per window as in RateLimit-Policy; units of a period; places
	Remaining int64      `json:"remaining"` // whole tokens, units or places, at most Limit
	ResetMS   int64      `json:"reset_ms"`  // until one more, or until the period ends; 0 when full or not known
	Source    string     `json:"source"`    // whence the numbers are: boost, override, "plan pro", "route report", …
	Until     *time.Time `json:"until,omitempty"`
	Refused   bool       `json:"refused,omitempty"`
	Unlimited bool       `json:"unlimited,omitempty"`
	Overage   bool       `json:"overage,omitempty"`  // beyond the quota's amount, to be billed
	Overflow  bool       `json:"overflow,omitempty"` // counted together with other identifiers
}

var errBadCost = errors.New("cost is not a whole number from 1 to 2^48-1")

// serveDecide answers 200 for every decision; other statuses mean that the
// question could not be understood.
func (g *Gateway) serveDecide(w http.ResponseWriter, r *http.Request) {
	id := requestID(r.Header, true)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(refusedBodyTime))
	in, err := readQuestion(w, r)
	if err != nil {
		w.Header().Set("Connection", "close") // the rest of the body may still come
		code := CodeBadRequest
		if errors.Is(err, errBadCost) {
			code = CodeBadCost
		}
		writeProblem(w, code, id, err.Error())
		return
	}
	_ = control.SetReadDeadline(time.Time{})
	in.RequestID = id
	v := g.decide(r.Context(), in)
	debug := g.cfg.DebugHeader && r.Header.Get(headerDebug) == "1"
	w.Header().Set(headerRequestID, id)
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, g.decisionOf(&v, debug))
}

// readQuestion reads the body strictly: an unknown member, one in other letters
// or one that stands twice is an error that names it. encoding/json would take
// the last of them, where the service before us may have looked at the first.
func readQuestion(w http.ResponseWriter, r *http.Request) (*Inbound, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDecideBody))
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	var q question
	if err := q.read(body); err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	return q.inbound()
}

func (q *question) read(body []byte) error {
	if !utf8.Valid(body) {
		return errors.New("it is not valid UTF-8")
	}
	to := map[string]any{
		"key": &q.Key, "tenant": &q.Tenant, "method": &q.Method, "host": &q.Host, "path": &q.Path,
		"ip": &q.IP, "headers": &q.Headers, "cost": &q.Cost, "user": &q.User, "body": &q.Body,
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := readMembers(dec, func(name string) any { return to[name] }); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// headerValues are header fields by name; a name may stand once.
type headerValues map[string]string

// UnmarshalJSON reads an object of strings.
func (h *headerValues) UnmarshalJSON(b []byte) error {
	values := map[string]*string{}
	err := readMembers(json.NewDecoder(bytes.NewReader(b)), func(name string) any {
		values[name] = new(string)
		return values[name]
	})
	*h = make(headerValues, len(values))
	for name, value := range values {
		(*h)[name] = *value
	}
	return err
}

// readMembers reads an object. to says where the value of a member goes; nil
// means that there is no such member.
func readMembers(dec *json.Decoder, to func(name string) any) error {
	start, err := dec.Token()
	if err != nil {
		return err
	}
	if start != json.Delim('{') {
		return errors.New("it is not a JSON object")
	}
	for seen := map[string]bool{}; dec.More(); {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := token.(string)
		target := to(name)
		switch {
		case target == nil:
			return fmt.Errorf("%q is unknown", name)
		case seen[name]:
			return fmt.Errorf("%q stands twice", name)
		}
		seen[name] = true
		if err := dec.Decode(target); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	_, err = dec.Token()
	return err
}

func (q *question) inbound() (*Inbound, error) {
	in := &Inbound{
		Method: q.Method, Host: q.Host, Key: q.Key, Tenant: q.Tenant, Header: header(q.Headers), ClientKnown: true,
		User: q.User, UserKnown: q.User != "",
	}
	if q.Body != nil {
		in.Body = &Body{ContentType: dimension.ContentType(in.Header), Peek: []byte(*q.Body), Whole: true}
	}
	var err error
	switch {
	case q.Key != "" && q.Tenant != "":
		return nil, errors.New("key and tenant: one of them, not both")
	case q.Method == "":
		return nil, errors.New("method: is needed")
	case q.Tenant != "" && !policy.ValidID(q.Tenant):
		return nil, errors.New("tenant: no tenant id")
	}
	if in.EscapedPath, in.Query, err = pathOf(q.Path); err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	if q.IP != "" {
		if in.Client, err = netip.ParseAddr(q.IP); err != nil {
			return nil, errors.New("ip: no address")
		}
		in.Client = plain(in.Client)
	}
	if len(q.Cost) > 0 && string(q.Cost) != "null" {
		cost, err := strconv.ParseInt(string(q.Cost), 10, 64)
		if err != nil || cost < 1 || cost > maxCost {
			return nil, errBadCost
		}
		in.Cost = cost
	}
	return in, nil
}

func (g *Gateway) decisionOf(v *Verdict, debug bool) decision {
	d := decision{
		Allowed: v.Allowed, Degraded: v.Degraded, Status: v.Status, Reason: string(v.Reason), Code: v.Code, Tenant: v.Tenant,
		Credential: v.Credential, Route: v.routeName(), Version: v.version(), Cost: v.Cost, Limits: []limitAnswer{},
		RetryAfterMS: v.retryAfterMillis(), RequestID: v.RequestID, Headers: map[string]string{}, Lease: v.Lease,
	}
	if !v.abuse() {
		d.Receipt = v.Receipt
		d.Limits = append(answers(v.Limits), answers(v.Unlimited)...)
		if debug {
			d.Shadows = answers(v.Shadows)
		}
	}
	h := http.Header{}
	g.writeHeaders(h, v)
	for name := range h {
		d.Headers[name] = h.Get(name)
	}
	return d
}

// answers tells the limits whose numbers are known.
func answers(limits []LimitState) []limitAnswer {
	out := make([]limitAnswer, 0, len(limits))
	for i := range limits {
		if !limits[i].Unknown {
			out = append(out, limits[i].answer())
		}
	}
	return out
}

func (l *LimitState) answer() limitAnswer {
	a := limitAnswer{
		ID: l.ID, Kind: l.Kind, Limit: l.Quota, Remaining: min(l.Remaining, l.Quota), ResetMS: ceilDiv(l.NextMicros, 1000),
		Source: l.From.Source, Refused: l.violated(), Unlimited: l.Unlimited, Overage: l.Overage, Overflow: l.Overflow,
	}
	if l.From.ExpiresMicros > 0 {
		until := time.UnixMicro(l.From.ExpiresMicros).UTC()
		a.Until = &until
	}
	return a
}
