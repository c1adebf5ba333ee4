package policy

import (
	"net/textproto"
	"slices"
	"strings"
)

// place says where a limit stands, and so what it may be counted per.
type place struct {
	what    string // "of a plan"
	allowed []DimensionKind
}

func (p place) words() string {
	words := make([]string, len(p.allowed))
	for i, k := range p.allowed {
		words[i] = string(k)
		switch k {
		case DimensionHeader:
			words[i] += ":NAME"
		case DimensionBody:
			words[i] += ":FIELD"
		default:
		}
	}
	return strings.Join(words, ", ")
}

func globalPlace() place {
	return place{"on everything together", []DimensionKind{DimensionGlobal, DimensionIP}}
}

func sharedPlace() place { return place{"that is shared", dimensionKinds()} }

func planPlace() place {
	return place{"of a plan", []DimensionKind{DimensionTenant, DimensionCredential, DimensionUser, DimensionIP, DimensionHeader}}
}

// routePlace is where a route's own limits stand.
func routePlace(r *Route) place {
	out := place{"of a route", dimensionKinds()}
	if r.Identity.noTenant() {
		out.what = "of a route with identity " + string(r.Identity) + ", which has no tenant"
		out.allowed = slices.DeleteFunc(out.allowed, DimensionKind.needsTenant)
	}
	if r.Motive != MotiveAbuse {
		out.allowed = slices.DeleteFunc(out.allowed, func(k DimensionKind) bool { return k == DimensionBody })
	}
	return out
}

func (i Identity) noTenant() bool { return i == IdentityIP || i == IdentityUser }

func (k DimensionKind) needsTenant() bool { return k == DimensionTenant || k == DimensionCredential }

// per checks what something is counted per.
func (v *validator) per(at string, per Per, in place) {
	if per == "" {
		v.problems.addf(at, "is missing: one of %s", in.words())
		return
	}
	dimensions := per.Dimensions()
	if len(dimensions) > MaxDimensions {
		v.problems.addf(at, "combines %d dimensions: at most %d are allowed", len(dimensions), MaxDimensions)
		return
	}
	for i, d := range dimensions {
		switch why := d.bad(); {
		case why != "":
			v.problems.addf(at, "%s", why)
		case d.Kind == DimensionBody && !slices.Contains(in.allowed, d.Kind):
			v.problems.addf(at, "%s is not for a limit %s: a field of the body is read only on a route with motive abuse", clip(d.String()), in.what)
		case !slices.Contains(in.allowed, d.Kind):
			v.problems.addf(at, "%s is not for a limit %s: it must be one of %s", clip(d.String()), in.what, in.words())
		case slices.Contains(dimensions[:i], d):
			v.problems.addf(at, "%s is there twice", clip(d.String()))
		case d.Kind == DimensionGlobal && len(dimensions) > 1:
			v.problems.addf(at, "global is one count for everything: it combines with nothing")
		case d.Kind == DimensionUser && v.doc.User == nil:
			v.problems.addf(at, "user is not known: say where the user stands, user: {header: X-User-Id}")
		case d.Kind == DimensionHeader && v.tellsAddress(d.Name):
			v.problems.addf(at, "%s tells the client address, and any caller can write it: count per ip", clip(d.String()))
		}
	}
}

// tellsAddress reports whether a header is where proxies write the client
// address, which per ip reads with care.
func (v *validator) tellsAddress(header string) bool {
	switch header {
	case "X-Forwarded-For", "Forwarded", "X-Real-Ip":
		return true
	}
	return header == textproto.CanonicalMIMEHeaderKey(v.doc.ClientIP.Header)
}

// bad says what is wrong with a dimension wherever it stands; "" for nothing.
func (d Dimension) bad() string {
	switch d.Kind {
	case DimensionHeader:
		if why := badHeader(d.Name); why != "" {
			return "header: " + why
		}
	case DimensionBody:
		if !validField(d.Name) {
			return "body:" + clip(d.Name) + " must name a field by 1 to 64 letters, digits, _, . and -"
		}
	default:
		if !slices.Contains(dimensionKinds(), d.Kind) {
			return "\"" + clip(string(d.Kind)) + "\" is not known: it must be one of " + perWords
		}
	}
	return ""
}

func validField(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// headerAlone reports whether a caller who changes a header on each request
// would meet no limit of a route: each one that could refuse is counted per it.
func headerAlone(limits []metLimit) bool {
	some := false
	for _, m := range limits {
		if m.limit.Rate.Unlimited || m.limit.Mode == ModeShadow {
			continue
		}
		if !m.limit.Per.has(DimensionHeader) {
			return false
		}
		some = true
	}
	return some
}
