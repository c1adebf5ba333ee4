package envoy

import (
	"net/http"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Header fields that this door knows by name.
const (
	fieldDebug     = "X-Headgate-Debug"
	fieldLease     = "X-Headgate-Lease"
	fieldRequestID = "X-Request-Id"
)

// upstreamFields are what the upstream learns from us.
func upstreamFields() [5]string {
	return [...]string{"X-Headgate-Tenant", "X-Headgate-Credential", "X-Headgate-User", "X-Headgate-Route", fieldLease}
}

// forUpstream reports whether a field says who is calling, which is for the
// upstream alone.
func forUpstream(name string) bool {
	if !strings.HasPrefix(name, "X-Headgate-") {
		return false
	}
	fields := upstreamFields()
	return slices.Contains(fields[:], name)
}

// twin reports whether a field of the caller's is one of ours, or looks like one
// to an upstream that cannot tell underscores from hyphens.
func twin(name string) bool {
	return strings.HasPrefix(strings.ToLower(strings.ReplaceAll(name, "_", "-")), "x-headgate-")
}

// each tells the fields of h, the lines of one name after each other.
func each(h http.Header, tell func(name, value string)) {
	for name, values := range h {
		for _, value := range values {
			tell(name, value)
		}
	}
}

// replace adds a field that takes the place of what stands there; further lines
// of it, which come one after the other, are added to the first.
func replace(to []*corev3.HeaderValueOption, name, value string) []*corev3.HeaderValueOption {
	action := corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD
	if n := len(to); n > 0 && to[n-1].GetHeader().GetKey() == name {
		action = corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD
	}
	return append(to, &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: name, Value: value}, AppendAction: action})
}
