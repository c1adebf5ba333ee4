package policy

import (
	"maps"
	"slices"
)

// Defaults of the document.
const (
	DefaultClientIPHeader = "X-Forwarded-For"
	DefaultIPv6Prefix     = 64
)

func defaultHeaders() []CredentialHeader {
	return []CredentialHeader{{Name: "Authorization", Scheme: "Bearer"}, {Name: "X-API-Key"}}
}

func defaultInvalid() InvalidLimit {
	r, _ := ParseRate("30/minute") // a constant that parses
	return InvalidLimit{Rate: r, Burst: 30}
}

// withDefaults is a copy of the document in which everything that has a default
// is filled in, and which shares no memory with it. A burst is left alone: only
// the source knows whether 0 was meant.
func (d *Document) withDefaults() *Document {
	out := *d
	out.ClientIP.TrustedProxies = slices.Clone(d.ClientIP.TrustedProxies)
	out.Credentials.Headers = slices.Clone(d.Credentials.Headers)
	if out.ClientIP.Header == "" {
		out.ClientIP.Header = DefaultClientIPHeader
	}
	if out.ClientIP.IPv6Prefix == 0 {
		out.ClientIP.IPv6Prefix = DefaultIPv6Prefix
	}
	if out.Credentials.Headers == nil {
		out.Credentials.Headers = defaultHeaders()
	}
	if !out.Credentials.Invalid.Rate.set() {
		out.Credentials.Invalid = defaultInvalid()
	}
	out.Global.Limits = limitsWithDefaults(d.Global.Limits)
	out.Shared = limitsWithDefaults(d.Shared)
	out.Plans = maps.Clone(d.Plans)
	for name, plan := range out.Plans {
		plan.Limits = limitsWithDefaults(plan.Limits)
		out.Plans[name] = plan
	}
	out.Routes = slices.Clone(d.Routes)
	for i := range out.Routes {
		out.Routes[i].fillDefaults()
	}
	return &out
}

func limitsWithDefaults(limits []Limit) []Limit {
	out := slices.Clone(limits)
	for i := range out {
		if out[i].Counts == "" {
			out[i].Counts = CountsCost
		}
		if out[i].Rate.Unlimited || out[i].Rate.Tokens == 0 {
			out[i].Rate = spelledOnce(out[i].Rate)
		}
	}
	return out
}

// spelledOnce drops what means nothing beside "unlimited" and "0".
func spelledOnce(r Rate) Rate {
	switch {
	case r.Unlimited:
		return Rate{Unlimited: true}
	case r.set():
		return blockedRate()
	}
	return r
}

func (r *Route) fillDefaults() {
	if r.Identity == "" {
		r.Identity = IdentityAPIKey
	}
	if r.Motive == "" {
		r.Motive = MotiveFairness
	}
	if r.Cost == 0 {
		r.Cost = 1
	}
	r.Match, r.Uses = slices.Clone(r.Match), slices.Clone(r.Uses)
	r.Limits = limitsWithDefaults(r.Limits)
	if f := r.OnStoreFailure.Fallback; f != nil {
		r.OnStoreFailure.Fallback = new(*f)
	}
}
