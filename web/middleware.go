package web

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/api"
)

// maxBody bounds a request body: that of policy pages and of the API holds a
// document of 8 MiB and the form around it, that of a bulk job its file, any
// other a form.
func maxBody(r *http.Request) int64 {
	if r.Method == http.MethodPost && r.URL.Path == api.Prefix+"/bulk" {
		return console.MaxBulkInput + 1<<20 // streamed, and bounded again row by row
	}
	if r.URL.Path == "/bulk" && strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		return console.MaxBulkInput + 64<<10
	}
	if strings.HasPrefix(r.URL.Path, "/policy/") || strings.HasPrefix(r.URL.Path, "/api/") {
		return 8<<20 + 64<<10
	}
	return 64 << 10
}

// contentSecurityPolicy allows nothing inline and nothing from another host.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types htmx"

const permissionsPolicy = "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), hid=(), " +
	"magnetometer=(), microphone=(), midi=(), payment=(), serial=(), usb=()"

type ctxKey int

const (
	ctxRequestID ctxKey = iota
	ctxSignedIn
	ctxNoSessions // set when sessions could not be read
)

// requestID returns the id of the request, also found in the log and on the
// response as X-Request-Id.
func requestID(ctx context.Context) string {
	id, _ := ctx.Value(ctxRequestID).(string)
	return id
}

// identify gives each request a fresh id. An inbound one is never kept: the
// console trusts no proxy to name its requests.
func identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := rand.Text()
		w.Header().Set("X-Request-Id", id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), ctxRequestID, id)))
	})
}

// protect sets the headers that every answer carries, whatever its status.
// Nothing is stored by caches unless a handler says so (static files do).
//
// Pages send no referrer. Only where the console is served over plain HTTP to
// other machines do they send it to the console itself: browsers give such
// pages no Sec-Fetch-Site, and without a referrer no Origin either, and then
// nothing could tell our own forms from others'.
func protect(https, sendsFetchMetadata bool) func(http.Handler) http.Handler {
	referrer := "no-referrer"
	if !sendsFetchMetadata {
		referrer = "same-origin"
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Content-Security-Policy", contentSecurityPolicy)
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("X-Frame-Options", "DENY")
			h.Set("Referrer-Policy", referrer)
			h.Set("Cross-Origin-Opener-Policy", "same-origin")
			h.Set("Cross-Origin-Resource-Policy", "same-origin")
			h.Set("Permissions-Policy", permissionsPolicy)
			h.Set("Cache-Control", "no-store")
			if https {
				h.Set("Strict-Transport-Security", "max-age=63072000; includeSubDomains")
			}
			next.ServeHTTP(w, r)
		})
	}
}

// recoverTo answers a panic with 500 and logs it once with its stack.
func recoverTo(log *slog.Logger, answer http.HandlerFunc) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				if p := recover(); p != nil {
					panicked(log, r, p)
					answer(w, r)
				}
			}()
			next.ServeHTTP(w, r)
		})
	}
}

// panicked logs what a handler panicked with; that it wants the connection
// closed goes on up to the server.
func panicked(log *slog.Logger, r *http.Request, p any) {
	if p == http.ErrAbortHandler { //nolint:errorlint // a sentinel that is panicked, never wrapped
		panic(p)
	}
	log.ErrorContext(r.Context(), "panic", "request_id", requestID(r.Context()), "method", r.Method,
		"path", clip(r.URL.Path), "panic", clip(fmt.Sprint(p)), "stack", string(debug.Stack()))
}

// clip bounds text of strangers before it is logged.
func clip(s string) string {
	if len(s) > 256 {
		s = s[:256] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// trustworthy reports whether browsers treat the origin as a secure one.
func (h hosts) trustworthy() bool { return h.scheme == "https" || len(h.names) > 1 }

// hosts are the names that the console answers to: that of its public URL and,
// where this is a loopback name, the other loopback names with the same port.
type hosts struct {
	scheme string
	names  []string // canonical
}

func hostsOf(public *url.URL) hosts {
	h := hosts{scheme: public.Scheme, names: []string{canonicalHost(public.Host, public.Scheme)}}
	loopback := []string{"localhost", "127.0.0.1", "[::1]"}
	name := strings.ToLower(public.Hostname())
	if ip := net.ParseIP(name); name != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return h
	}
	for _, l := range loopback {
		if public.Port() != "" {
			l += ":" + public.Port()
		}
		h.names = append(h.names, canonicalHost(l, public.Scheme))
	}
	return h
}

func (h hosts) has(host string) bool { return slices.Contains(h.names, canonicalHost(host, h.scheme)) }

// origin reports whether an Origin header names this console: scheme, host and port.
func (h hosts) origin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && u.Scheme == h.scheme && h.has(u.Host)
}

// onlyHost refuses requests that name another host than the configured one
// (421), so that no Host header ever reaches a page, a link or a cookie.
func onlyHost(ours hosts, refuse http.HandlerFunc) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !ours.has(r.Host) {
				refuse(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// canonicalHost is the lower-case host with its port, the scheme's default port
// left out.
func canonicalHost(host, scheme string) string {
	host = strings.ToLower(host)
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		return host
	}
	if scheme == "https" && port == "443" || scheme == "http" && port == "80" {
		return name
	}
	return net.JoinHostPort(name, port)
}

// sameOrigin lets a request that may change something through only when it does
// not come from another site. It is stricter than http.CrossOriginProtection,
// which it builds on: the scheme of Origin counts too, and a Sec-Fetch-Site
// other than same-origin never passes. A client that sends neither header is
// not a browser and has no ambient cookies to abuse.
func sameOrigin(ours hosts, refuse http.HandlerFunc) func(http.Handler) http.Handler {
	std := http.NewCrossOriginProtection()
	std.SetDenyHandler(refuse)
	return func(next http.Handler) http.Handler {
		inner := std.Handler(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if safeMethod(r.Method) {
				next.ServeHTTP(w, r)
				return
			}
			site := r.Header.Get("Sec-Fetch-Site")
			if site != "" && site != "same-origin" {
				refuse(w, r)
				return
			}
			for _, origin := range r.Header.Values("Origin") {
				// Under no-referrer browsers write "null" for our own pages' forms;
				// Sec-Fetch-Site, which no page can set, then has to say whose it is.
				if !ours.origin(origin) && (origin != "null" || site != "same-origin") {
					refuse(w, r)
					return
				}
			}
			inner.ServeHTTP(w, r)
		})
	}
}

func safeMethod(m string) bool {
	return m == http.MethodGet || m == http.MethodHead || m == http.MethodOptions
}

// noTrace refuses TRACE and TRACK, which would echo cookies.
func noTrace(refuse http.HandlerFunc) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodTrace || r.Method == "TRACK" || r.Method == http.MethodConnect {
				refuse(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// readForms bounds bodies and reads forms before any handler does, so that a
// bad one is refused in one place: too large 413, not readable or a field or
// query parameter given twice 400. A field that may stand several times ends in "[]".
func readForms(refuse func(w http.ResponseWriter, r *http.Request, status int, message string)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if name := repeated(r.URL.Query()); name != "" && !strings.HasPrefix(r.URL.Path, "/api/") { // the API says so itself
				refuse(w, r, http.StatusBadRequest, "The parameter "+clip(name)+" was given more than once.")
				return
			}
			if r.Body != nil && r.Body != http.NoBody {
				if r.ContentLength > maxBody(r) {
					refuse(w, r, http.StatusRequestEntityTooLarge, "The request is too large.")
					return
				}
				if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
					refuse(w, r, http.StatusUnsupportedMediaType, "Compressed requests are not accepted.")
					return
				}
				r.Body = http.MaxBytesReader(w, r.Body, maxBody(r))
			}
			if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/x-www-form-urlencoded" {
				next.ServeHTTP(w, r)
				return
			}
			if status, message := formProblem(r); status != 0 {
				refuse(w, r, status, message)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

func formProblem(r *http.Request) (int, string) {
	if err := r.ParseForm(); err != nil {
		if _, ok := err.(*http.MaxBytesError); ok { //nolint:errorlint // ParseForm returns it bare
			return http.StatusRequestEntityTooLarge, "The request is too large."
		}
		return http.StatusBadRequest, "The form could not be read."
	}
	if name := repeated(r.PostForm); name != "" {
		return http.StatusBadRequest, "The field " + clip(name) + " was given more than once."
	}
	return 0, ""
}

// repeated names a field that was given more than once and may not be; "" when
// there is none.
func repeated(form url.Values) string {
	for name, values := range form {
		if len(values) > 1 && !strings.HasSuffix(name, "[]") {
			return name
		}
	}
	return ""
}
