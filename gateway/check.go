package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// serveCheck is forward authentication: a proxy asks about a request that it
// describes in headers, and goes on when the answer is 2xx.
//
// nginx' auth_request passes on 401 and 403 only and makes a 500 of anything
// else, so with ?style=nginx every other refusal is a 403 with the real status in
// X-Headgate-Status.
func (g *Gateway) serveCheck(w http.ResponseWriter, r *http.Request) {
	peer := peerAddress(r.RemoteAddr)
	in := Inbound{Header: r.Header, Peer: peer, PeerTrusted: peer.IsLoopback(), readBody: bodyReader(w, r)}
	if err := g.describe(&in, r); err != nil {
		finishBody(w, r)
		writeProblem(w, CodeBadRequest, requestID(r.Header, false), err.Error())
		return
	}
	v := g.decide(r.Context(), &in)
	finishBody(w, r)
	out := &styledWriter{ResponseWriter: w, nginx: r.URL.Query().Get("style") == "nginx"}
	g.writeDebug(w.Header(), r, &v)
	if !v.Allowed {
		g.writeRefusal(out, &v, r.Header.Get("Origin"))
		return
	}
	g.writeAdmission(w.Header(), &v)
	out.WriteHeader(http.StatusOK)
}

// writeAdmission tells a proxy what it should know of a request that it may
// forward: the limits, and who is calling.
func (g *Gateway) writeAdmission(h FieldSink, v *Verdict) {
	g.writeHeaders(h, v)
	for _, f := range [...]struct{ name, value string }{
		{headerTenant, v.Tenant}, {headerCredential, v.Credential}, {headerUser, v.User}, {headerRoute, v.routeName()}, {headerLease, v.Lease},
	} {
		if f.value != "" && (f.name == headerLease || fieldText(f.value)) {
			h.Set(f.name, f.value)
		}
	}
}

// describe reads which request is meant. Two descriptions that differ are an
// error: proxies pass their callers' headers on, so one of them may be forged.
func (g *Gateway) describe(in *Inbound, r *http.Request) error {
	if !in.PeerTrusted {
		snap := g.cfg.Policies.Current()
		if snap == nil || !trusts(snap.Compiled.Document.ClientIP, in.Peer) {
			return errors.New("forwarded headers count from loopback and from the policy's trusted_proxies only")
		}
	}
	var err error
	if in.Method, err = told(r.Header, "X-Forwarded-Method", "X-Original-Method"); err != nil {
		return err
	}
	uri, err := told(r.Header, "X-Forwarded-Uri", "X-Original-Uri")
	if err != nil {
		return err
	}
	if in.Host, err = told(r.Header, "X-Forwarded-Host", "X-Original-Host"); errors.Is(err, errNotTold) {
		in.Host, err = r.Host, nil
	}
	if err != nil {
		return err
	}
	in.EscapedPath, in.Query, err = pathOf(uri)
	return err
}

var errNotTold = errors.New("is given")

// told reads a value that may stand in either of two headers.
func told(h http.Header, names ...string) (string, error) {
	value := ""
	for _, name := range names {
		for _, line := range h.Values(name) {
			line = strings.TrimSpace(line)
			if line != "" && value != "" && line != value {
				return "", errors.New(strings.Join(names, " and ") + " contradict each other")
			}
			if line != "" {
				value = line
			}
		}
	}
	if value == "" {
		return "", fmt.Errorf("neither %s %w", strings.Join(names, " nor "), errNotTold)
	}
	return value, nil
}

// pathOf takes the escaped path and the raw query out of a request target.
func pathOf(target string) (path, query string, err error) {
	path, query, _ = strings.Cut(target, "?")
	if strings.Contains(path, "#") { // some programs end the path there and some do not
		return "", "", errors.New("the request target has a fragment")
	}
	if !strings.HasPrefix(path, "/") {
		return "", "", errors.New("the request target does not begin with /")
	}
	if _, err := url.PathUnescape(path); err != nil {
		return "", "", errors.New("the request target is not percent-encoded properly")
	}
	return path, query, nil
}

// styledWriter maps statuses for callers that know only a few.
type styledWriter struct {
	http.ResponseWriter
	nginx bool
}

// WriteHeader sends the status, or what stands for it.
func (w *styledWriter) WriteHeader(status int) {
	w.Header().Set(headerStatus, strconv.Itoa(status))
	if w.nginx && status >= 300 && status != http.StatusUnauthorized {
		status = http.StatusForbidden
	}
	w.ResponseWriter.WriteHeader(status)
}
