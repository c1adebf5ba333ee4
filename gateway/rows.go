package gateway

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/headgate/headgate/gateway/dimension"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// Bounds on the identifiers that a limit keeps apart; beyond them newcomers share
// a bucket. Addresses are bounded by lane, of which a store has 256.
const (
	identifiersOfTenant = 10_000
	identifiersOfLane   = 4096
	identifiersOfAll    = 1_000_000
)

// maxSubject bounds the text that names a subject, in bytes: longer ones are
// named by their digest, so that a lease token stays small.
const maxSubject = 192

// rows finds whose state a limit of one request is counted in. It reads each
// value of the request once.
type rows struct {
	g    *Gateway
	in   *Inbound
	v    *Verdict
	view *policyView
	user callerUser
}

// of says where a limit is counted. A dimension that the request lacks never
// means "no limit" and never a bucket that strangers share: it is counted within
// the tenant, or without a tenant within the address.
func (r *rows) of(dimensions []policy.Dimension) limiter.Row {
	if len(dimensions) == 1 {
		switch d := dimensions[0]; {
		case d.Kind == policy.DimensionGlobal:
			return limiter.Row{Kind: limiter.RowGlobal}
		case d.Kind == policy.DimensionTenant && r.v.Tenant != "":
			return limiter.Row{Kind: limiter.RowTenant, Tenant: r.v.Tenant}
		case d.Kind == policy.DimensionCredential && r.v.Tenant != "":
			return limiter.Row{Kind: limiter.RowCredential, Tenant: r.v.Tenant, Subject: r.v.Credential}
		case d.Kind == policy.DimensionTenant, d.Kind == policy.DimensionCredential, d.Kind == policy.DimensionIP:
			return limiter.Row{Kind: limiter.RowIP, Subject: r.v.Subject}
		}
	}
	parts := make([]dimension.Part, len(dimensions))
	for i, d := range dimensions {
		parts[i] = r.part(d)
	}
	scope := dimension.Part{Dimension: policy.Dimension{Kind: policy.DimensionTenant}, State: dimension.Present, Value: r.v.Tenant}
	if r.v.Tenant == "" {
		scope = r.part(policy.Dimension{Kind: policy.DimensionIP})
	}
	return limiter.Row{Kind: limiter.RowDimension, Tenant: r.v.Tenant, Subject: shortened(dimension.Subject(parts, scope))}
}

// part is one dimension with its value in the request.
func (r *rows) part(d policy.Dimension) dimension.Part {
	p := dimension.Part{Dimension: d, State: dimension.Present}
	if logged := r.in.Replay; logged != nil && logged.Logged && (d.Kind == policy.DimensionHeader || d.Kind == policy.DimensionBody) {
		p.Value, p.State = logged.value(d)
		return p
	}
	switch d.Kind {
	case policy.DimensionGlobal: // combines with nothing
	case policy.DimensionTenant:
		p.Value = r.v.Tenant
	case policy.DimensionCredential:
		p.Value = r.v.Credential
	case policy.DimensionIP:
		p.Value = r.v.Subject
	case policy.DimensionUser:
		p.Value = r.g.userOf(r.in, r.v, &r.user).id
	case policy.DimensionHeader:
		p.Value, p.State = dimension.Header(r.in.Header, d.Name)
	case policy.DimensionBody:
		p.Value, p.State = r.field(d.Name)
	}
	if p.Value == "" && p.State == dimension.Present && d.Kind != policy.DimensionHeader && d.Kind != policy.DimensionBody {
		p.State = dimension.Missing
	}
	return p
}

// field is a field of the body or, where an upstream could take it from there,
// of the query. At doors that are not shown the body it is the query alone.
func (r *rows) field(name string) (string, dimension.State) {
	body := r.in.Body
	if body == nil {
		body = &Body{Whole: true}
	}
	peek, whole := body.Peek, body.Whole
	if len(peek) > dimension.MaxBody { // read further for the cost
		peek, whole = peek[:dimension.MaxBody], false
	}
	return dimension.RequestField(r.in.Query, body.ContentType, peek, whole, name)
}

// shortened is text, or what stands for it when it is long. The mark cannot begin
// a text of package dimension's.
func shortened(text string) string {
	if len(text) <= maxSubject {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "#" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// identifiers bounds the subjects that a limit keeps apart in such rows.
func identifiers(row limiter.Row) int64 {
	switch {
	case row.Kind == limiter.RowIP:
		return identifiersOfLane
	case row.Kind == limiter.RowDimension && row.Tenant != "":
		return identifiersOfTenant
	case row.Kind == limiter.RowDimension:
		return identifiersOfAll
	}
	return 0
}

// needsBody reports whether a limit looks into the body.
func needsBody(dimensions []policy.Dimension) bool {
	for _, d := range dimensions {
		if d.Kind == policy.DimensionBody {
			return true
		}
	}
	return false
}
