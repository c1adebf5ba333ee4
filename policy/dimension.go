package policy

import (
	"cmp"
	"net/textproto"
	"slices"
	"strings"
)

// Per says what a limit is counted per: one dimension ("tenant",
// "header:X-Client", "body:username") or several together, with commas
// ("ip,body:username"). In a document several are a list.
type Per string

// Dimensions that stand alone.
const (
	PerGlobal     Per = "global"
	PerTenant     Per = "tenant"
	PerCredential Per = "credential"
	PerUser       Per = "user"
	PerIP         Per = "ip"
)

// DimensionKind is a property of a request that limits are counted per.
type DimensionKind string

// Kinds of dimensions.
const (
	DimensionGlobal     DimensionKind = "global" // one bucket for everything
	DimensionTenant     DimensionKind = "tenant"
	DimensionCredential DimensionKind = "credential"
	DimensionUser       DimensionKind = "user"
	DimensionIP         DimensionKind = "ip"
	DimensionHeader     DimensionKind = "header"
	DimensionBody       DimensionKind = "body"
)

// dimensionKinds are all kinds, in the order in which a Per names them.
func dimensionKinds() []DimensionKind {
	return []DimensionKind{DimensionGlobal, DimensionTenant, DimensionCredential, DimensionUser, DimensionIP,
		DimensionHeader, DimensionBody}
}

// MaxDimensions is how many dimensions a limit may combine.
const MaxDimensions = 4

// Dimension is one dimension of a limit.
type Dimension struct {
	Kind DimensionKind
	Name string // of a header, in canonical form, or of a field of the body; "" otherwise
}

// String spells the dimension as a document does.
func (d Dimension) String() string {
	if d.Kind == DimensionHeader || d.Kind == DimensionBody {
		return string(d.Kind) + ":" + d.Name
	}
	return string(d.Kind)
}

// Secret reports whether values of the dimension are credentials: headers that carry
// them, and fields of the body that are named like one. They can be counted by, and are
// never shown nor kept as they are.
func (d Dimension) Secret() bool {
	name := strings.ToLower(d.Name)
	switch d.Kind {
	case DimensionHeader:
		return strings.HasSuffix(name, "authorization") || secretName(name)
	case DimensionBody:
		return secretName(name[strings.LastIndexByte(name, '.')+1:])
	}
	return false
}

// secretName reports whether a word of a name, in lower case, means a credential.
func secretName(name string) bool {
	for _, word := range []string{"password", "passwd", "passphrase", "passcode", "secret", "token", "apikey", "otp", "pin", "cvv", "cvc"} {
		if name == word || strings.HasSuffix(name, "-"+word) || strings.HasSuffix(name, "_"+word) || len(word) > 5 && strings.Contains(name, word) {
			return true
		}
	}
	squeezed := strings.NewReplacer("-", "", "_", "").Replace(name)
	return strings.HasSuffix(squeezed, "apikey") || strings.HasSuffix(squeezed, "token") || strings.HasSuffix(squeezed, "authkey")
}

// Dimensions reads a Per into its parts, in its order. It checks nothing: a word
// that is not known becomes a kind that is not known.
func (p Per) Dimensions() []Dimension {
	if p == "" {
		return nil
	}
	words := strings.Split(string(p), ",")
	out := make([]Dimension, len(words))
	for i, w := range words {
		out[i] = parseDimension(w)
	}
	return out
}

func parseDimension(word string) Dimension {
	kind, name, found := strings.Cut(word, ":")
	switch {
	case found && DimensionKind(kind) == DimensionHeader:
		return Dimension{DimensionHeader, textproto.CanonicalMIMEHeaderKey(name)}
	case found && DimensionKind(kind) == DimensionBody:
		return Dimension{DimensionBody, name}
	}
	return Dimension{Kind: DimensionKind(word)}
}

// PerOf combines dimensions; PerOf(p.Dimensions()) is the one spelling of p.
func PerOf(dimensions []Dimension) Per {
	order := dimensionKinds()
	sorted := slices.Clone(dimensions)
	slices.SortStableFunc(sorted, func(a, b Dimension) int {
		if c := cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	words := make([]string, len(sorted))
	for i, d := range sorted {
		words[i] = d.String()
	}
	return Per(strings.Join(words, ","))
}

// perWords are the dimensions as messages name them.
const perWords = "global, tenant, credential, user, ip, header:NAME, body:FIELD"

// spelledOnce is the one spelling of the same dimensions.
func (p Per) spelledOnce() Per {
	if !strings.ContainsAny(string(p), ",:") {
		return p
	}
	return PerOf(p.Dimensions())
}

// Text spells the dimensions for people: "tenant", "ip + body:username".
func (p Per) Text() string { return strings.ReplaceAll(string(p), ",", " + ") }

// has reports whether one of the dimensions is of the kind.
func (p Per) has(kind DimensionKind) bool {
	return slices.ContainsFunc(p.Dimensions(), func(d Dimension) bool { return d.Kind == kind })
}
