package policy

import (
	"bytes"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// everyField is a document in which every field is given, and given something
// else than its default.
func everyField() *Document {
	limit := func(name string, per Per) Limit {
		return Limit{Name: name, Description: "d", Per: per, Counts: CountsRequests, Rate: Rate{Tokens: 7, Period: time.Hour}, Burst: 9}
	}
	return &Document{
		APIVersion:  APIVersion,
		Description: "d",
		ClientIP:    ClientIP{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Header: "X-Real-IP", IPv6Prefix: 48},
		Credentials: Credentials{Headers: []CredentialHeader{{Name: "X-Key", Scheme: "Key"}}, Invalid: InvalidLimit{Rate: Rate{Tokens: 3, Period: time.Minute}, Burst: 4}},
		Global:      Global{Limits: []Limit{limit("g", PerIP)}},
		Shared:      []Limit{limit("s", PerCredential)},
		Plans:       map[string]Plan{"p": {Description: "d", Limits: []Limit{limit("q", PerCredential)}}},
		Routes: []Route{{
			Name: "r", Description: "d", Match: []string{"GET /a"}, Identity: IdentityAPIKey, Motive: MotiveQuota, Cost: 5,
			Limits: []Limit{limit("l", PerIP)}, Uses: []string{"s"},
			OnStoreFailure: StoreFailure{Mode: FailOpen, Fallback: &Fallback{Rate: Rate{Tokens: 5, Period: time.Second}, Burst: 6}},
		}},
	}
}

// others has another good value for each leaf whose values are words.
func others(path string, v reflect.Value) reflect.Value {
	words := map[string]string{
		"Name": "other", "Description": "other", "Scheme": "Other", "Header": "X-Other", "Counts": "cost", "Motive": "fairness",
		"Identity": "ip", "Mode": "closed", "Match": "GET /b", "Uses": "s2",
	}
	name := path[strings.LastIndexByte(path, '.')+1:]
	name, _, _ = strings.Cut(name, "[")
	out := reflect.New(v.Type()).Elem()
	switch {
	case name == "Per":
		out.SetString(string(map[Per]Per{PerIP: PerGlobal, PerCredential: PerTenant}[Per(v.String())]))
	case v.Kind() == reflect.String:
		out.SetString(words[name])
	case v.Kind() == reflect.Bool:
		out.SetBool(!v.Bool())
	case v.Type() == reflect.TypeFor[time.Duration]():
		out.SetInt(v.Int() * 2)
	default:
		out.SetInt(v.Int() + 1)
	}
	return out
}

// leaves calls visit for each leaf below v with a setter that works on maps too.
func leaves(path string, v reflect.Value, set func(reflect.Value), visit func(path string, v reflect.Value, set func(reflect.Value))) {
	switch {
	case v.Type() == reflect.TypeFor[netip.Prefix]():
		visit(path, v, set)
	case v.Kind() == reflect.Pointer:
		leaves(path, v.Elem(), v.Elem().Set, visit)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			leaves(path+"."+v.Type().Field(i).Name, v.Field(i), v.Field(i).Set, visit)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			leaves(fmt.Sprintf("%s[%d]", path, i), v.Index(i), v.Index(i).Set, visit)
		}
	case v.Kind() == reflect.Map:
		for _, k := range v.MapKeys() {
			item := reflect.New(v.Type().Elem()).Elem()
			item.Set(v.MapIndex(k))
			put := func() { v.SetMapIndex(k, item) }
			leaves(path+"."+k.String(), item, item.Set, func(p string, leaf reflect.Value, set func(reflect.Value)) {
				visit(p, leaf, func(x reflect.Value) { set(x); put() })
			})
		}
	default:
		visit(path, v, set)
	}
}

// A field that one of them forgot would be lost on publishing: each field is in
// the canonical bytes, comes back from every text, and is seen by Diff.
func TestFields_NoneIsForgotten(t *testing.T) {
	t.Parallel()
	skip := []string{".APIVersion", ".Unlimited"} // a constant; and what is written as a word, below
	base := everyField()
	if r := Validate(base); !r.OK() {
		t.Fatal(r)
	}
	visited := 0
	leaves("", reflect.ValueOf(base).Elem(), nil, func(path string, v reflect.Value, _ func(reflect.Value)) {
		if slices.ContainsFunc(skip, func(s string) bool { return strings.HasSuffix(path, s) }) {
			return
		}
		visited++
		d := everyField()
		leaves("", reflect.ValueOf(d).Elem(), nil, func(p string, v reflect.Value, set func(reflect.Value)) {
			switch {
			case p != path:
			case v.Type() == reflect.TypeFor[netip.Prefix]():
				set(reflect.ValueOf(netip.MustParsePrefix("192.0.2.0/24")))
			default:
				set(others(p, v))
			}
		})
		if reflect.DeepEqual(d, everyField()) {
			t.Fatalf("%s: the test changes nothing", path)
		}
		if bytes.Equal(d.Canonical(), base.Canonical()) {
			t.Errorf("%s is not in the canonical bytes", path)
		}
		if len(Diff(base, d)) == 0 || len(Diff(d, base)) == 0 {
			t.Errorf("%s is not seen by Diff", path)
		}
		for name, src := range map[string][]byte{"JSON": d.Canonical(), "YAML": d.YAML()} {
			back, _ := ParseLoose(src) // a changed name may leave a problem behind
			if !reflect.DeepEqual(back, d.withDefaults()) {
				t.Errorf("%s does not come back from %s: %+v", path, name, back)
			}
		}
	})
	if visited < 45 {
		t.Errorf("only %d fields", visited)
	}
}

func TestFields_UnlimitedStandsForTheWholeRate(t *testing.T) {
	t.Parallel()
	d := everyField()
	d.Shared[0].Rate, d.Shared[0].Burst = Rate{Unlimited: true}, 0
	d.Routes[0].OnStoreFailure.Fallback = &Fallback{Unlimited: true}
	text := string(d.Canonical())
	for _, want := range []string{`"per":"credential","rate":"unlimited"}`, `"fallback":"unlimited"`} {
		if !strings.Contains(text, want) {
			t.Errorf("canonical bytes lack %s:\n%s", want, text)
		}
	}
	back, r := Parse([]byte(text))
	if !r.OK() || !reflect.DeepEqual(back, d) {
		t.Errorf("comes back as %+v, %v", back, r)
	}
	long, r := Parse([]byte(strings.Replace(text, `"fallback":"unlimited"`, `"fallback":{"rate":"unlimited"}`, 1)))
	if !r.OK() || string(long.Canonical()) != text {
		t.Errorf("the long spelling comes back as %+v, %v", long, r)
	}
}

// kindsOf gives a value of each kind as JSON, by its name in messages.
func kindsOf() map[string]string {
	return map[string]string{"a list": `[[]]`, "a map": `{"zz":1}`, "text": `"zz zz"`, "number": `5`, "fraction": `0.5`, "true or false": `true`, "nothing": `null`}
}

// Every field, given a value of the wrong kind, is a problem at its own path:
// nothing is coerced, skipped or told elsewhere.
func TestFields_EachRefusesTheWrongKind(t *testing.T) {
	t.Parallel()
	text := `{"apiVersion":"headgate/v1","routes":[{"name":"a","match":["/"],"on_store_failure":{"mode":"open","fallback":{"rate":"5/minute","burst":5}},` +
		`"description":"d","identity":"api_key","motive":"fairness","cost":1,"uses":["s"],"limits":[{"name":"l","description":"d","per":"tenant","counts":"cost","rate":"5/minute","burst":5,"mode":"enforce","sync":"exact"}]}],` +
		`"description":"d","client_ip":{"trusted_proxies":["10.0.0.0/8"],"header":"X-Forwarded-For","ipv6_prefix":64},` +
		`"credentials":{"headers":[{"name":"X-Key","scheme":"Key"}],"invalid":{"per":"ip","rate":"5/minute","burst":5}},` +
		`"global":{"limits":[]},"shared":[{"name":"s","per":"tenant","rate":"5/minute"}],"plans":{"p":{"description":"d","limits":[]}}}`
	base, err := readSource([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, r := Parse([]byte(text)); !r.OK() {
		t.Fatal(r)
	}
	takes := map[string][]string{ // kinds that a field takes, besides those of its own value
		"description": {"text"}, "cost": {"number"}, "burst": {"number"}, "ipv6_prefix": {"number"},
	}
	fields := 0
	walk("", base, func(path string, at *node) {
		name := path[strings.LastIndexByte(path, '.')+1:]
		original := *at
		fields++
		for kind, value := range kindsOf() {
			if slices.Contains(takes[name], kind) {
				continue
			}
			other, err := readSource([]byte(`{"v":` + value + `}`))
			if err != nil {
				t.Fatal(err)
			}
			*at = *other.items[0]
			var src bytes.Buffer
			writeCanonical(&src, base)
			*at = original
			d, r := Parse(src.Bytes())
			if d != nil || !slices.ContainsFunc(r.Problems, func(p Problem) bool {
				return p.Path == path || strings.HasPrefix(p.Path, path+".") || strings.HasPrefix(p.Path, path+"[")
			}) {
				t.Errorf("%s with %s (%s): %v", path, value, kind, r.Problems)
			}
		}
	})
	if fields < 40 {
		t.Errorf("only %d fields", fields)
	}
}

// walk visits every field and item of a tree.
func walk(path string, n *node, visit func(path string, at *node)) {
	for i, item := range n.items {
		at := index(path, i)
		if n.kind == kindMap {
			at = field(path, n.keys[i].text)
		}
		visit(at, item)
		walk(at, item, visit)
	}
}
