package policy

import (
	"cmp"
	"maps"
	"net/textproto"
	"slices"
)

// Defaults of the document.
const (
	DefaultClientIPHeader = "X-Forwarded-For"
	DefaultIPv6Prefix     = 64
	DefaultTimeZone       = "UTC"
	DefaultUserClaim      = "sub"
	DefaultListSize       = 10    // of graphql
	DefaultGraphQLDepth   = 50    // levels of fields
	DefaultGraphQLBreadth = 1_000 // fields of one selection
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
	out.User = d.User.withDefaults()
	out.Global.Limits = limitsWithDefaults(d.Global.Limits)
	out.Shared = limitsWithDefaults(d.Shared)
	out.Plans = maps.Clone(d.Plans)
	for name, plan := range out.Plans {
		plan.Limits = limitsWithDefaults(plan.Limits)
		plan.Quota = plan.Quota.withDefaults()
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
		out[i].Counts = cmp.Or(out[i].Counts, CountsCost)
		out[i].Mode = cmp.Or(out[i].Mode, ModeEnforce)
		out[i].Sync = cmp.Or(out[i].Sync, SyncExact)
		out[i].Per = out[i].Per.spelledOnce()
		if t := out[i].ExpiresAt; t != nil {
			out[i].ExpiresAt = new(t.UTC())
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
	r.Identity = cmp.Or(r.Identity, IdentityAPIKey)
	r.Motive = cmp.Or(r.Motive, MotiveFairness)
	r.Cost = cmp.Or(r.Cost, 1)
	r.SettleHeader = textproto.CanonicalMIMEHeaderKey(r.SettleHeader)
	if r.GraphQL = r.GraphQL.withDefaults(); r.GraphQL != nil {
		r.Cost = 1 // means nothing beside a cost that is computed
	}
	if c := r.Concurrency; c != nil {
		r.Concurrency = &Concurrency{Per: c.Per.spelledOnce(), Max: c.Max, Lease: c.Lease, Mode: cmp.Or(c.Mode, ModeEnforce)}
	}
	r.Match, r.Uses = slices.Clone(r.Match), slices.Clone(r.Uses)
	r.Limits = limitsWithDefaults(r.Limits)
	if f := r.OnStoreFailure.Fallback; f != nil {
		r.OnStoreFailure.Fallback = new(*f)
	}
}

func (u *User) withDefaults() *User {
	if u == nil {
		return nil
	}
	out := User{Header: textproto.CanonicalMIMEHeaderKey(u.Header)}
	if u.JWT != nil {
		out.JWT = new(*u.JWT)
		out.JWT.Claim = cmp.Or(out.JWT.Claim, DefaultUserClaim)
	}
	return &out
}

func (q *Quota) withDefaults() *Quota {
	if q == nil {
		return nil
	}
	out := *q
	out.Counts = cmp.Or(out.Counts, CountsCost)
	out.Alignment = cmp.Or(out.Alignment, AlignCalendar)
	out.TimeZone = cmp.Or(out.TimeZone, DefaultTimeZone)
	out.Over = cmp.Or(out.Over, OverBlock)
	out.Mode = cmp.Or(out.Mode, ModeEnforce)
	return &out
}

func (g *GraphQLCost) withDefaults() *GraphQLCost {
	if g == nil {
		return nil
	}
	out := *g
	out.DefaultListSize = cmp.Or(out.DefaultListSize, DefaultListSize)
	out.MaxDepth = cmp.Or(out.MaxDepth, DefaultGraphQLDepth)
	out.MaxBreadth = cmp.Or(out.MaxBreadth, DefaultGraphQLBreadth)
	out.ListArguments = slices.Clone(g.ListArguments)
	if out.ListArguments == nil {
		out.ListArguments = []string{"first", "last", "limit"}
	}
	slices.Sort(out.ListArguments)
	out.Weights = maps.Clone(g.Weights)
	return &out
}
