package web

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
)

var limitPath = regexp.MustCompile(`^limits\[(\d+)\](?:\.(\w+))?`)

// locate finds the section of a problem's path and the field in it. The field
// is "" when the problem concerns the section as a whole.
func locate(path string) (section, string) {
	switch {
	case strings.HasPrefix(path, "routes["):
		index, rest, _ := strings.Cut(strings.TrimPrefix(path, "routes["), "]")
		return section{"route", index}, routeField(strings.TrimPrefix(rest, "."))
	case strings.HasPrefix(path, "plans."):
		name, rest, _ := strings.Cut(strings.TrimPrefix(path, "plans."), ".")
		return section{"plan", name}, planField(rest)
	case strings.HasPrefix(path, "shared["):
		return section{Kind: "shared"}, limitFieldOf("limits" + strings.TrimPrefix(path, "shared"))
	case strings.HasPrefix(path, "global."):
		return section{Kind: "global"}, limitFieldOf(strings.TrimPrefix(path, "global."))
	}
	return section{Kind: "general"}, generalField(path)
}

func limitFieldOf(rest string) string {
	m := limitPath.FindStringSubmatch(rest)
	if m == nil {
		return ""
	}
	field := map[string]string{"": "name", "rate": "count", "mode": "kind", "expires_at": "expires"}[m[2]]
	if field == "" {
		field = m[2]
	}
	return "l" + m[1] + "-" + field
}

func planField(rest string) string {
	if rest == "" {
		return "name"
	}
	if quota, ok := strings.CutPrefix(rest, "quota"); ok {
		if quota == ".time_zone" {
			return "q-zone"
		}
		return "q-" + cmp.Or(knownPart(quota, "counts", "period", "alignment", "over", "max", "mode"), "amount")
	}
	return limitFieldOf(rest)
}

// knownPart is the last step of a path when it is one of the names.
func knownPart(path string, names ...string) string {
	for _, name := range names {
		if path == "."+name {
			return name
		}
	}
	return ""
}

func routeField(rest string) string {
	if f := limitFieldOf(rest); f != "" {
		return f
	}
	head, _, _ := strings.Cut(strings.NewReplacer("[", ".").Replace(rest), ".")
	switch {
	case rest == "on_store_failure.fallback.burst":
		return "fb-burst"
	case strings.HasPrefix(rest, "on_store_failure.fallback"):
		return "fb-count"
	case head == "on_store_failure":
		return "mode"
	case head == "concurrency":
		return "c-" + cmp.Or(knownPart(strings.TrimPrefix(rest, "concurrency"), "max", "lease", "per", "mode"), "max")
	case head == "match", head == "identity", head == "motive", head == "cost", head == "uses", head == "name", head == "description":
		return head
	}
	return ""
}

func generalField(path string) string {
	for _, p := range []struct{ prefix, field string }{
		{"client_ip.trusted_proxies", "trusted-proxies"}, {"client_ip.header", "ip-header"}, {"client_ip.ipv6_prefix", "ipv6-prefix"},
		{"credentials.headers", "headers"}, {"credentials.invalid.burst", "inv-burst"}, {"credentials.invalid", "inv-count"},
		{"description", "description"}, {"user", "user-header"}, {"replicas_expected", "replicas"},
	} {
		if strings.HasPrefix(path, p.prefix) {
			return p.field
		}
	}
	return ""
}

// lostBy are the problems of a source that would be gone if the document that
// was read from it were written out: values that could not be read, in whose
// place another would stand, such as a rate of 0.
func lostBy(d *policy.Document, r policy.Report) []policy.Problem {
	if d == nil || r.OK() {
		return nil
	}
	// What the document itself is wrong about is kept, and is cheap to know.
	if lost := notIn(policy.Validate(d), r.Problems); len(lost) == 0 {
		return nil
	}
	_, again := policy.ParseLoose(d.YAML())
	return notIn(again, r.Problems)
}

// notIn are the problems that a report does not tell.
func notIn(r policy.Report, problems []policy.Problem) []policy.Problem {
	type told struct{ path, message string }
	kept := map[told]bool{}
	for _, p := range r.Problems {
		kept[told{p.Path, p.Message}] = true
	}
	var lost []policy.Problem
	for _, p := range problems {
		if !kept[told{p.Path, p.Message}] {
			lost = append(lost, p)
		}
	}
	return lost
}

// refusal says why a form must not write the draft out: what could not be read
// in another of its parts would become something else without a word. It is ""
// when nothing stands in the way.
func (e *editor) refusal(of section) string {
	for _, p := range e.unkept {
		if sec, _ := locate(p.Path); sec != of {
			return "Not saved. " + p.Path + " cannot be read, and saving this part would put another value in its place. Mend it in the YAML, or in its own part, first."
		}
	}
	return ""
}

// blank empties the fields of what could not be read, so that nothing stands
// there that nobody has typed.
func (s section) blank(f *form.Form, unkept []policy.Problem) {
	for _, p := range unkept {
		if sec, field := locate(p.Path); sec == s && field != "" {
			f.Value[field] = ""
			if rate, ok := strings.CutSuffix(field, "count"); ok {
				f.Value[rate+"unit"] = "minute" // the usual one, in place of "each 0s"
			}
		}
	}
}

// mark puts the problems of a section beside its fields.
func (s section) mark(f *form.Form, problems []policy.Problem) {
	for _, p := range problems {
		sec, field := locate(p.Path)
		if sec != s {
			continue
		}
		if field == "" {
			f.Message = p.Message
			continue
		}
		f.Fail(field, p.Message)
	}
}
