package envoy

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/gateway/dimension"
)

// authorization is envoy.service.auth.v3.Authorization: forward authentication
// as at /v1/check.
type authorization struct{ *Server }

// Check decides one request. Its errors are InvalidArgument when it describes
// none, Canceled and DeadlineExceeded when the caller has left. A decision that
// nobody can make is an answer with status 503, as at the HTTP doors.
func (s *authorization) Check(ctx context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	asked := r.GetAttributes().GetRequest().GetHttp()
	if asked == nil {
		return nil, status.Error(codes.InvalidArgument, "attributes.request.http: is missing; requests of other protocols are not decided here")
	}
	in := inboundOf(asked)
	in.Budget = s.cfg.Budget
	in.Peer, in.PeerTrusted = sourceOf(ctx, r.GetAttributes().GetSource())
	var v gateway.Verdict
	s.decide.DecideInto(ctx, in, &v)
	if err := ctx.Err(); err != nil {
		v.End() //nolint:contextcheck // what it held is freed although the caller has left
		return nil, status.FromContextError(err).Err()
	}
	answer := s.decide.Answer(&v, in.Header.Get("Origin"), in.Header.Get(fieldDebug) == "1")
	if v.Allowed {
		return admitted(&answer, in.Header), nil
	}
	return denied(&v, &answer), nil
}

// inboundOf is the request that Envoy asks about.
func inboundOf(asked *authv3.AttributeContext_HttpRequest) *gateway.Inbound {
	in := &gateway.Inbound{Method: asked.GetMethod(), Host: asked.GetHost(), Header: headerOf(asked)}
	in.EscapedPath, in.Query = targetOf(asked.GetPath())
	if id := in.Header.Get(fieldRequestID); gateway.ValidRequestID(id) {
		in.RequestID = id // Envoy has made it, or lets it pass on purpose
	}
	in.Body = bodyOf(asked, in.Header)
	return in
}

// headerOf reads the header of the request in either form that Envoy has for it.
func headerOf(asked *authv3.AttributeContext_HttpRequest) http.Header {
	out := make(http.Header, len(asked.GetHeaders())+len(asked.GetHeaderMap().GetHeaders()))
	for name, value := range asked.GetHeaders() {
		if fieldName(name) { // no pseudo-header
			out.Add(name, value)
		}
	}
	for _, field := range asked.GetHeaderMap().GetHeaders() {
		value := field.GetValue()
		if raw := field.GetRawValue(); len(raw) > 0 {
			value = string(raw)
		}
		if fieldName(field.GetKey()) {
			out.Add(field.GetKey(), value)
		}
	}
	return out
}

// partialBody is set by Envoy when it brings a body.
const partialBody = "X-Envoy-Auth-Partial-Body"

// bodyOf is the body that came along, or nil where Envoy was not told to bring
// it: that it is empty cannot be known then.
func bodyOf(asked *authv3.AttributeContext_HttpRequest, h http.Header) *gateway.Body {
	body := asked.GetRawBody()
	if len(body) == 0 {
		body = []byte(asked.GetBody())
	}
	partial := h.Get(partialBody)
	if len(body) == 0 && partial == "" {
		return nil
	}
	return &gateway.Body{
		ContentType: dimension.ContentType(h), Peek: body,
		Whole: !strings.EqualFold(partial, "true") && asked.GetSize() <= int64(len(body)),
	}
}

// sourceOf is who speaks to Envoy. Without an address (a socket in the file
// system) it is Envoy itself, whose word on the caller counts on loopback.
func sourceOf(ctx context.Context, source *authv3.AttributeContext_Peer) (from netip.Addr, trusted bool) {
	if a, err := netip.ParseAddr(source.GetAddress().GetSocketAddress().GetAddress()); err == nil {
		return a.Unmap().WithZone(""), false
	}
	if p, ok := peer.FromContext(ctx); ok {
		from = peerAddress(p)
	}
	return from, from.IsLoopback()
}

// admitted lets the request pass: the upstream learns who is calling, and the
// caller what is left.
func admitted(answer *gateway.Answer, asked http.Header) *authv3.CheckResponse {
	out := &authv3.OkHttpResponse{}
	each(answer.Header, func(name, value string) {
		if forUpstream(name) || name == fieldRequestID {
			out.Headers = replace(out.Headers, name, value)
		}
		if !forUpstream(name) {
			out.ResponseHeadersToAdd = replace(out.ResponseHeadersToAdd, name, value)
		}
	})
	for _, name := range upstreamFields() {
		if answer.Header[name] == nil {
			out.HeadersToRemove = append(out.HeadersToRemove, strings.ToLower(name))
		}
	}
	for name := range asked {
		if twin(name) && !forUpstream(name) {
			out.HeadersToRemove = append(out.HeadersToRemove, strings.ToLower(name))
		}
	}
	return &authv3.CheckResponse{
		Status: &rpcstatus.Status{Code: int32(codes.OK)}, HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: out},
	}
}

// denied answers the caller with the bytes of the HTTP doors.
func denied(v *gateway.Verdict, answer *gateway.Answer) *authv3.CheckResponse {
	out := &authv3.DeniedHttpResponse{
		Status: &typev3.HttpStatus{Code: typev3.StatusCode(answer.Status)},
		Body:   string(answer.Body),
	}
	each(answer.Header, func(name, value string) { out.Headers = replace(out.Headers, name, value) })
	return &authv3.CheckResponse{
		Status:       &rpcstatus.Status{Code: int32(rpcCode(answer.Status)), Message: string(v.Code)},
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: out},
	}
}

// rpcCode is the code of a denial, for logs; Envoy tells the caller the status.
func rpcCode(status int) codes.Code {
	switch status {
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusServiceUnavailable:
		return codes.Unavailable
	case http.StatusNotFound:
		return codes.NotFound
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return codes.InvalidArgument
	}
	return codes.PermissionDenied
}
