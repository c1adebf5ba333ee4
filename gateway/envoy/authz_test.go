package envoy

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/gateway"
)

// check describes a request as Envoy does.
func checkRequest(from, method, path string, fields map[string]string) *authv3.CheckRequest {
	r := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Id: "17", Method: method, Path: path, Host: "api.example", Scheme: "https", Size: -1, Headers: map[string]string{},
		}},
	}}
	if from != "" {
		r.Attributes.Source = &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: from, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 4711}},
		}}}
	}
	h := r.Attributes.Request.Http.Headers
	for name, value := range fields {
		h[strings.ToLower(name)] = value
	}
	h[":path"], h[":method"], h[":authority"] = path, method, "api.example"
	return r
}

func (f *fixture) authorize(r *authv3.CheckRequest) *authv3.CheckResponse {
	f.t.Helper()
	out, err := f.authz.Check(f.t.Context(), r)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

func bearer(key string) map[string]string {
	return map[string]string{"authorization": "Bearer " + key}
}

// valuesOf reads options as a header.
func valuesOf(options []*corev3.HeaderValueOption) http.Header {
	h := http.Header{}
	for _, o := range options {
		h.Add(o.GetHeader().GetKey(), o.GetHeader().GetValue())
	}
	return h
}

// denial is what the caller of a denied request gets.
func denial(t *testing.T, r *authv3.CheckResponse) (int, http.Header, string) {
	t.Helper()
	d := r.GetDeniedResponse()
	if d == nil || r.GetStatus().GetCode() == int32(codes.OK) || r.GetOkResponse() != nil {
		t.Fatalf("not denied: %v", r)
	}
	return int(d.GetStatus().GetCode()), valuesOf(d.GetHeaders()), d.GetBody()
}

// codeIn is the code of a problem document.
func codeIn(body string) string {
	var p struct{ Code string }
	_ = json.Unmarshal([]byte(body), &p)
	return p.Code
}

func TestAuthz_AdmittedRequestTellsUpstreamWhoAndCallerWhatIsLeft(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := f.tenant("ten_a")
	fields := bearer(key)
	for _, forged := range []string{"x-headgate-tenant", "x-headgate-user", "x_headgate_tenant", "x-headgate-anything", "x-headgate-debug"} {
		fields[forged] = "1"
	}
	fields["x-request-id"] = "of-envoy-1234"
	r := f.authorize(checkRequest("192.0.2.1", "GET", "/v1/reports/7?page=2", fields))
	out := r.GetOkResponse()
	if out == nil || r.GetStatus().GetCode() != int32(codes.OK) {
		t.Fatalf("%v", r)
	}
	up, down := valuesOf(out.GetHeaders()), valuesOf(out.GetResponseHeadersToAdd())
	if up.Get("X-Headgate-Tenant") != "ten_a" || up.Get("X-Headgate-Credential") != "crd_ten_a" || up.Get("X-Headgate-Route") != "report" || up.Get("X-Request-Id") != "of-envoy-1234" {
		t.Errorf("upstream learns %v", up)
	}
	if down.Get("RateLimit-Remaining") != "5" || down.Get("X-Headgate-Tenant") != "" || down.Get("X-Headgate-Policy") != "v42" {
		t.Errorf("the caller learns %v", down)
	}
	for _, name := range []string{"x-headgate-user", "x-headgate-lease", "x_headgate_tenant", "x-headgate-anything", "x-headgate-debug"} {
		if !slices.Contains(out.GetHeadersToRemove(), name) {
			t.Errorf("%s is not removed: %v", name, out.GetHeadersToRemove())
		}
	}
	if slices.Contains(out.GetHeadersToRemove(), "x-headgate-tenant") {
		t.Error("what is set is removed again")
	}
	for _, o := range append(out.GetHeaders(), out.GetResponseHeadersToAdd()...) {
		if o.GetAppendAction() != corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD || o.GetAppend() != nil { //nolint:staticcheck // that it is not set
			t.Errorf("%v does not replace", o)
		}
	}
}

func TestAuthz_RefusalsAreThoseOfTheHTTPDoors(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := f.tenant("ten_a")
	for range 2 {
		f.authorize(checkRequest("192.0.2.1", "GET", "/v1/reports/7", bearer(key)))
	}
	for name, c := range map[string]struct {
		r      *authv3.CheckRequest
		status int
		code   string
		rpc    codes.Code
		field  string
	}{
		"over the limit": {checkRequest("192.0.2.1", "GET", "/v1/reports/7", bearer(key)), 429, "quota-exceeded", codes.ResourceExhausted, "Retry-After"},
		"no key":         {checkRequest("192.0.2.1", "GET", "/ten", nil), 401, "missing-credential", codes.Unauthenticated, "Www-Authenticate"},
		"bad key":        {checkRequest("192.0.2.1", "GET", "/ten", bearer("x")), 401, "malformed-credential", codes.Unauthenticated, ""},
		"no route":       {checkRequest("192.0.2.1", "GET", "/nowhere", bearer(key)), 404, "no-route", codes.NotFound, ""},
		"ambiguous path": {checkRequest("192.0.2.1", "GET", "/a//b", bearer(key)), 400, "ambiguous-path", codes.InvalidArgument, ""},
		"fragment":       {checkRequest("192.0.2.1", "GET", "/ten#", bearer(key)), 400, "ambiguous-path", codes.InvalidArgument, ""},
		"blocked":        {checkRequest("192.0.2.1", "GET", "/stopped", nil), 429, "quota-exceeded", codes.ResourceExhausted, ""},
	} {
		r := f.authorize(c.r)
		status, h, body := denial(t, r)
		if status != c.status || codeIn(body) != c.code || r.GetStatus().GetCode() != int32(c.rpc) || c.field != "" && h.Get(c.field) == "" {
			t.Errorf("%s: %d %v %s, %v", name, status, h, body, r.GetStatus())
		}
	}
	f.store.set(func(s *testStore) { s.broken = true })
	status, h, body := denial(t, f.authorize(checkRequest("192.0.2.1", "GET", "/ten", bearer(key))))
	if status != 503 || h.Get("Retry-After") != "2" || codeIn(body) != "temporary-reduced-capacity" {
		t.Errorf("closed: %d %v %s", status, h, body)
	}
}

func TestAuthz_AddressIsTheSourcesAndForwardedFieldsCountFromTrustedProxies(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ask := func(from, forwarded string) bool {
		fields := map[string]string{}
		if forwarded != "" {
			fields["x-forwarded-for"] = forwarded
		}
		return f.authorize(checkRequest(from, "GET", "/public/x", fields)).GetOkResponse() != nil
	}
	for range 5 {
		if !ask("192.0.2.1", "203.0.113.9") { // no trusted proxy: the field is the caller's own word
			t.Fatal("within the limit")
		}
	}
	for name, c := range map[string]struct {
		from, forwarded string
		want            bool
	}{
		"itself":                         {"192.0.2.1", "", false},
		"with another word":              {"192.0.2.1", "198.51.100.7", false},
		"behind a trusted proxy":         {"10.0.0.1", "192.0.2.1", false},
		"mapped":                         {"::ffff:192.0.2.1", "", false},
		"another behind it":              {"10.0.0.1", "203.0.113.9", true},
		"by Envoy's word, over a socket": {"", "192.0.2.1", false},
	} {
		if got := ask(c.from, c.forwarded); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAuthz_HeadersInEitherForm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := f.tenant("ten_a")
	r := checkRequest("192.0.2.1", "GET", "/ten", nil)
	asked := r.GetAttributes().GetRequest().GetHttp()
	asked.Headers = nil
	asked.HeaderMap = &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
		{Key: ":path", RawValue: []byte("/ten")}, {Key: "x-raw", RawValue: []byte("\xff")}, {Key: "authorization", RawValue: []byte("Bearer " + key)},
	}}
	if out := f.authorize(r); out.GetOkResponse() == nil {
		t.Errorf("raw: %v", out)
	}
	asked.HeaderMap.Headers = append(asked.HeaderMap.Headers, &corev3.HeaderValue{Key: "X-API-Key", Value: f.tenant("ten_b")})
	if status, _, body := denial(t, f.authorize(r)); status != 400 || codeIn(body) != "ambiguous-credential" {
		t.Errorf("two keys: %d %s", status, body)
	}
}

func TestAuthz_BodyIsLookedAt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	login := func(from, user string) bool {
		r := checkRequest(from, "POST", "/login", map[string]string{"content-type": "application/json", "x-envoy-auth-partial-body": "false"})
		r.Attributes.Request.Http.Body = `{"username":"` + user + `"}`
		return f.authorize(r).GetOkResponse() != nil
	}
	if !login("192.0.2.1", "anna") || !login("192.0.2.2", "anna") || login("192.0.2.3", "anna") || !login("192.0.2.3", "berta") {
		t.Error("accounts are not counted apart")
	}
}

func TestAuthz_BodyKnowsWhetherItIsWhole(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body, partial string
		size          int64
		none, whole   bool
	}{
		"none, and not asked for":     {"", "", -1, true, false},
		"empty":                       {"", "false", 0, false, true},
		"all of it":                   {"abc", "false", 3, false, true},
		"all of it, length not known": {"abc", "false", -1, false, true},
		"cut off":                     {"abc", "true", -1, false, false},
		"cut off, in capitals":        {"abc", "TRUE", -1, false, false},
		"shorter than it says":        {"abc", "false", 4, false, false},
	} {
		for _, raw := range []bool{false, true} {
			asked := &authv3.AttributeContext_HttpRequest{Size: c.size, Body: c.body}
			if raw {
				asked.Body, asked.RawBody = "", []byte(c.body)
			}
			h := http.Header{}
			if c.partial != "" {
				h.Set(partialBody, c.partial)
			}
			b := bodyOf(asked, h)
			if (b == nil) != c.none || b != nil && (b.Whole != c.whole || string(b.Peek) != c.body) {
				t.Errorf("%s: %+v", name, b)
			}
		}
	}
}

func TestAuthz_PreflightIsFree(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 8 { // the limit is 5
		r := f.authorize(checkRequest("192.0.2.1", "OPTIONS", "/public/x", map[string]string{"origin": "https://a.example", "access-control-request-method": "GET"}))
		if r.GetOkResponse() == nil {
			t.Fatalf("%v", r)
		}
	}
}

func TestAuthz_LeaseGoesToTheUpstream(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := f.tenant("ten_a")
	ask := func() *authv3.CheckResponse {
		return f.authorize(checkRequest("192.0.2.1", "POST", "/jobs", bearer(key)))
	}
	token := valuesOf(ask().GetOkResponse().GetHeaders()).Get(fieldLease)
	ask()
	if status, h, _ := denial(t, ask()); status != 429 || h.Get("Retry-After") != "1" {
		t.Errorf("full: %d %v", status, h)
	}
	if token == "" || f.release(token)/100 != 2 || ask().GetOkResponse() == nil {
		t.Errorf("lease %q frees no place", token)
	}
}

func TestAuthz_OtherProtocolsAreAnError(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, r := range []*authv3.CheckRequest{{}, {Attributes: &authv3.AttributeContext{}}, {Attributes: &authv3.AttributeContext{Request: &authv3.AttributeContext_Request{}}}} {
		_, err := f.authz.Check(t.Context(), r)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "attributes.request.http") {
			t.Errorf("got %v", err)
		}
	}
}

func TestAuthz_FieldsOfSeveralLinesKeepAll(t *testing.T) {
	t.Parallel()
	var out []*corev3.HeaderValueOption
	each(http.Header{"B": {"1", "2"}}, func(name, value string) { out = replace(out, name, value) })
	var got []string
	for _, o := range out {
		got = append(got, o.GetHeader().GetKey()+o.GetHeader().GetValue()+o.GetAppendAction().String())
	}
	want := []string{"B1OVERWRITE_IF_EXISTS_OR_ADD", "B2APPEND_IF_EXISTS_OR_ADD"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func FuzzInbound(f *testing.F) {
	f.Add("GET", "/a?b=c", "authorization", "Bearer x", "body", "false", int64(4), true)
	f.Add("", "#", ":path", "\xff", "", "", int64(-1), false)
	f.Fuzz(func(t *testing.T, method, path, name, value, body, partial string, size int64, raw bool) {
		asked := &authv3.AttributeContext_HttpRequest{Method: method, Path: path, Size: size, Body: body}
		if raw {
			asked.HeaderMap = &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: name, RawValue: []byte(value)}, {Key: partialBody, Value: partial}}}
		} else {
			asked.Headers = map[string]string{name: value, strings.ToLower(partialBody): partial}
		}
		in := inboundOf(asked)
		if strings.ContainsAny(in.EscapedPath, "?#") {
			t.Fatalf("path %q", in.EscapedPath)
		}
		if in.RequestID != "" && !gateway.ValidRequestID(in.RequestID) {
			t.Fatalf("request id %q", in.RequestID)
		}
		for name := range in.Header {
			if !fieldName(name) {
				t.Fatalf("field %q", name)
			}
		}
		if b := in.Body; b != nil && b.Whole && (size > int64(len(b.Peek)) || strings.EqualFold(in.Header.Get(partialBody), "true")) {
			t.Fatalf("a part is taken for the whole: %+v", b)
		}
	})
}
