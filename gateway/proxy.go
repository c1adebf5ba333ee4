package gateway

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/usage/spool"
)

const (
	dialTimeout       = 5 * time.Second
	idleUpstream      = 90 * time.Second
	idleUpstreamConns = 1024
	copyBuffer        = 32 << 10
)

// statusClientGone is what a request is booked under whose caller left; nobody
// reads it.
const statusClientGone = 499

// exchange is what the proxy remembers of a request while the upstream has it, and
// what ReverseProxy answers to. It is made once for all, because each part of its own
// is work for the collector.
type exchange struct {
	http.ResponseWriter
	g       *Gateway
	in      Inbound
	ticket  spool.Ticket
	verdict Verdict
	badBody atomic.Bool // the caller's body could not be read
	trailer http.Header // of the outbound request, filled at the end of the body
	ended   atomic.Bool // what became of it is noted
	settlement
}

// Unwrap lets http.ResponseController find the caller's connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader begins an answer. An upstream's 1xx answers are passed on without
// modifyResponse being asked, so fields that only we may set are dropped here.
func (x *exchange) WriteHeader(status int) {
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		x.g.noted(x) // before the caller sees anything
		dropOurs(x.Header())
		if name := x.verdict.settleHeader(); name != "" {
			x.Header().Del(name)
		}
	}
	x.ResponseWriter.WriteHeader(status)
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// ProxyHandler decides each request and forwards what is admitted.
func (g *Gateway) ProxyHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{ResponseWriter: w, g: g, in: Inbound{
			Method: r.Method, Host: r.Host, EscapedPath: r.URL.EscapedPath(), Query: r.URL.RawQuery, Header: r.Header,
			Peer: peerAddress(r.RemoteAddr), Ends: true, readBody: bodyReader(w, r),
		}}
		x.in.ticket = &x.ticket
		v := &x.verdict
		g.decideInto(r.Context(), &x.in, v)
		// Also when the copy panics, and after an upgrade has ended.
		defer v.End() //nolint:contextcheck // what is held has to be given back when the caller has left
		g.writeDebug(w.Header(), r, v)
		switch {
		case v.Aborted:
			w.WriteHeader(statusClientGone)
		case !v.Allowed:
			finishBody(w, r)
			if v.Code == CodeBadRequest {
				w.Header().Set("Connection", "close")
			}
			g.writeRefusal(w, v, r.Header.Get("Origin"))
		default:
			if r.Body != nil && r.Body != http.NoBody {
				r.Body = &watchedBody{ReadCloser: r.Body, x: x, trailer: r.Trailer}
			}
			defer g.noted(x)          // also when the copy panics
			defer g.settleExchange(x) //nolint:contextcheck // what was used is charged when the caller has left
			g.proxy.ServeHTTP(x, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
		}
	})
}

// watchedBody notes when a body cannot be read to its end: then the caller, and
// not the upstream, is at fault. At the end it hands the trailers on, which
// ReverseProxy announces and leaves empty.
type watchedBody struct {
	io.ReadCloser
	x       *exchange
	trailer http.Header // of the inbound request
}

// Read reads from the caller.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		for name := range b.x.trailer {
			b.x.trailer[name] = b.trailer[name]
		}
	case err != nil:
		b.x.badBody.Store(true)
	}
	return n, err
}

func (g *Gateway) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: g.rewrite, ModifyResponse: g.modifyResponse, ErrorHandler: g.upstreamFailed,
		Transport:  upstreamTransport(g.cfg.UpstreamTimeout),
		BufferPool: &buffers{},
		ErrorLog:   log.New(serverLog{g.cfg.Log}, "", 0),
	}
}

// upstreamTransport keeps many connections to the one upstream and follows no
// proxy of the environment.
func upstreamTransport(timeout time.Duration) *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext,
		MaxIdleConns:        idleUpstreamConns,
		MaxIdleConnsPerHost: idleUpstreamConns, IdleConnTimeout: idleUpstream,
		TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: timeout, ExpectContinueTimeout: time.Second,
		DisableCompression: true, // bodies pass as they are
		ForceAttemptHTTP2:  true,
	}
}

// buffers lends the copy buffers of the proxy.
type buffers struct{ pool sync.Pool }

// Get lends a buffer.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, copyBuffer)
}

// Put takes a buffer back.
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

// rewrite makes the outbound request. ReverseProxy has removed the hop-by-hop
// headers before, so a Connection header cannot remove what is set here.
func (g *Gateway) rewrite(pr *httputil.ProxyRequest) {
	x := exchangeOf(pr.In.Context())
	v, out := &x.verdict, pr.Out
	out.Method, _ = canonicalMethod(pr.In.Method)
	out.URL.Scheme, out.URL.Host = g.cfg.Upstream.Scheme, g.cfg.Upstream.Host
	setPath(out.URL, g.cfg.Upstream, v.Path)
	out.URL.RawQuery, out.URL.ForceQuery = pr.In.URL.RawQuery, pr.In.URL.ForceQuery
	out.Host = pr.In.Host
	rules := v.Policy.Compiled.Document
	proto := forwardedProto(pr.In, rules.ClientIP)
	scrub(out.Header, rules.ClientIP.Header)
	scrubTwins(out.Header, rules.Credentials.Headers)
	if name := userHeader(rules); name != "" && !trusts(rules.ClientIP, peerAddress(pr.In.RemoteAddr)) {
		scrubName(out.Header, name)
	}
	scrub(out.Trailer, rules.ClientIP.Header)
	x.trailer = out.Trailer
	if g.cfg.StripCredential {
		stripCredentials(out.Header, rules.Credentials.Headers)
	}
	to := fieldSet{h: out.Header}
	to.Set(headerRequestID, v.RequestID)
	to.Set("X-Forwarded-Host", pr.In.Host)
	to.Set("X-Forwarded-Proto", proto)
	if v.Client.IsValid() {
		to.Set("X-Forwarded-For", v.clientText())
	}
	if v.Tenant != "" {
		to.Set(headerTenant, v.Tenant)
	}
	if v.Credential != "" {
		to.Set(headerCredential, v.Credential)
	}
	if fieldText(v.User) {
		to.Set(headerUser, v.User)
	}
}

// clientText is the caller's address as text.
func (v *Verdict) clientText() string {
	if v.Client.Is4() {
		return v.Subject // is the same, and made already
	}
	return v.Client.String()
}

// setPath forwards the very path that was matched and charged.
func setPath(u, upstream *url.URL, canonical string) {
	raw := upstream.EscapedPath() + canonical
	path, err := url.PathUnescape(raw)
	if err != nil { // a canonical path always unescapes
		path = raw
	}
	u.Path, u.RawPath = path, raw
}

// modifyResponse puts our fields in the place of the upstream's.
func (g *Gateway) modifyResponse(res *http.Response) error {
	x := exchangeOf(res.Request.Context())
	g.noted(x)
	dropOurs(res.Header)
	name := x.verdict.settleHeader()
	if name != "" {
		x.readCost(res.Header, name)
	}
	v := &x.verdict
	if res.StatusCode >= 300 && res.StatusCode < 400 { // the fields of a redirect tell no quota
		told := x.verdict
		told.Limits, v = nil, &told
	}
	// ReverseProxy adds what is left of the upstream's.
	g.writeHeaders(&fieldSet{h: x.Header(), over: res.Header}, v)
	if res.StatusCode != http.StatusSwitchingProtocols && res.Body != nil {
		dropOurs(res.Trailer)
		if name != "" { // announced, and known when the body has been read
			res.Trailer.Del(name)
		}
		res.Body = &trailerGuard{ReadCloser: res.Body, res: res, x: x, settle: name}
	}
	return nil
}

// dropOurs removes fields that only we may set.
func dropOurs(h http.Header) {
	for name := range h {
		if ownName(name) || begins(name, "ratelimit") || begins(name, "x-ratelimit") {
			delete(h, name)
		}
	}
}

// trailerGuard keeps an upstream's limits out of the trailers as well, which are
// known only when the body has been read.
type trailerGuard struct {
	io.ReadCloser
	res    *http.Response
	x      *exchange
	settle string // trailer that tells the cost
}

// Read reads from the upstream.
func (b *trailerGuard) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && len(b.res.Trailer) > 0 {
		dropOurs(b.res.Trailer)
		if b.settle != "" {
			b.x.readCost(b.res.Trailer, b.settle)
		}
	}
	return n, err
}

// upstreamFailed answers for an upstream that did not.
func (g *Gateway) upstreamFailed(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r.Context())
	g.noted(x)
	code, cause := CodeUpstreamUnavailable, "unavailable"
	var netErr net.Error
	switch {
	case r.Context().Err() != nil:
		g.metrics.upstream.WithLabelValues("caller-left").Inc()
		w.WriteHeader(statusClientGone)
		return
	case x.badBody.Load():
		code, cause = CodeBadRequest, "bad-body"
		w.Header().Set("Connection", "close")
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &netErr) && netErr.Timeout():
		code, cause = CodeUpstreamTimeout, "timeout"
	}
	finishBody(w, r)
	g.metrics.upstream.WithLabelValues(cause).Inc()
	g.tally.upstreamFailed(cause)
	v := &x.verdict
	g.writeHeaders(w.Header(), v)
	writeCORS(w.Header(), r.Header.Get("Origin"))
	writeProblem(w, code, v.RequestID, "")
}

// writeDebug names the policy version to callers that ask, where that is allowed.
func (g *Gateway) writeDebug(h http.Header, r *http.Request, v *Verdict) {
	if r.Header.Get(headerDebug) == "1" {
		g.writeVersion(h, v)
	}
}

func (g *Gateway) writeVersion(h FieldSink, v *Verdict) {
	if !g.cfg.DebugHeader || v.Policy == nil {
		return
	}
	h.Set(headerPolicy, "v"+strconv.FormatInt(v.Policy.Version, 10))
	for i := range v.Shadows {
		if s := &v.Shadows[i]; s.violated() && !v.abuse() {
			h.Add(headerShadow, s.ID)
		}
	}
}
