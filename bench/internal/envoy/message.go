package envoy

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Entry is one key and value of a descriptor.
type Entry struct{ Key, Value string }

// Message encodes a RateLimitRequest: field 1 the domain, field 2 the descriptors,
// each with its entries in field 1.
func Message(domain string, descriptors ...[]Entry) []byte {
	b := appendText(nil, 1, domain)
	for _, descriptor := range descriptors {
		var entries []byte
		for _, e := range descriptor {
			entries = appendText(entries, 1, string(appendText(appendText(nil, 1, e.Key), 2, e.Value)))
		}
		b = appendText(b, 2, string(entries))
	}
	return b
}

func appendText(b []byte, field protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), text)
}

// Subjects is how many tenants the calls go round.
const Subjects = 1000

// Kind is what the calls ask.
type Kind string

// Kinds of calls: one limit, four limits, and one that has been used up.
const (
	One     Kind = "one limit"
	Four    Kind = "four limits"
	Refused Kind = "refused"
)

// tenant is the id of the i-th tenant.
func tenant(i int) string { return fmt.Sprintf("ten_%05d", i) }

// Ours are headgate's requests of a kind: a tenant and the route that draws from as
// many limits.
func Ours(kind Kind) [][]byte {
	path := map[Kind]string{One: "/one", Four: "/four", Refused: "/refused"}[kind]
	return messages(func(i int) []byte {
		return Message("headgate", []Entry{{"tenant", tenant(i)}, {"method", "GET"}, {"path", path}})
	})
}

// Theirs are envoyproxy/ratelimit's requests of a kind: a descriptor for each limit
// of Config.
func Theirs(kind Kind) [][]byte {
	return messages(func(i int) []byte {
		switch kind {
		case Four:
			return Message(domain, []Entry{{"plan", tenant(i)}}, []Entry{{"shared", tenant(i)}}, []Entry{{"route", tenant(i)}}, []Entry{{"burst", tenant(i)}})
		case Refused:
			return Message(domain, []Entry{{"refused", tenant(i)}})
		default:
			return Message(domain, []Entry{{"plan", tenant(i)}})
		}
	})
}

func messages(message func(i int) []byte) [][]byte {
	all := make([][]byte, Subjects)
	for i := range all {
		all[i] = message(i)
	}
	return all
}

// domain is the peer's.
const domain = "bench"

// Config is envoyproxy/ratelimit's configuration for Theirs.
const Config = `domain: bench
descriptors:
  - key: plan
    rate_limit: {unit: minute, requests_per_unit: 1000000000}
  - key: shared
    rate_limit: {unit: minute, requests_per_unit: 1000000000}
  - key: route
    rate_limit: {unit: minute, requests_per_unit: 1000000000}
  - key: burst
    rate_limit: {unit: minute, requests_per_unit: 1000000000}
  - key: refused
    rate_limit: {unit: hour, requests_per_unit: 1}
`
