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
// else than its default. What excludes each other stands on several routes.
func everyField() *Document {
	limit := func(name string, per Per) Limit {
		return Limit{Name: name, Description: "d", Per: per, Counts: CountsRequests, Rate: Rate{Tokens: 7, Period: time.Hour}, Burst: 9,
			Mode: ModeShadow, Sync: SyncExact, ExpiresAt: new(time.Date(2027, 1, 31, 12, 0, 0, 5000, time.UTC))}
	}
	leased := func(name string, per Per) Limit {
		return Limit{Name: name, Description: "d", Per: per, Counts: CountsCost, Rate: Rate{Tokens: 700, Period: time.Second}, Burst: 900,
			Mode: ModeEnforce, Sync: SyncLeased}
	}
	open := StoreFailure{Mode: FailOpen, Fallback: &Fallback{Rate: Rate{Tokens: 5, Period: time.Second}, Burst: 6}}
	return &Document{
		APIVersion:       APIVersion,
		Description:      "d",
		ClientIP:         ClientIP{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Header: "X-Real-IP", IPv6Prefix: 48},
		Credentials:      Credentials{Headers: []CredentialHeader{{Name: "X-Key", Scheme: "Key"}}, Invalid: InvalidLimit{Rate: Rate{Tokens: 3, Period: time.Minute}, Burst: 4}},
		User:             &User{Header: "X-User"},
		ReplicasExpected: 3,
		Global:           Global{Limits: []Limit{limit("g", PerIP), leased("all", PerGlobal)}},
		Shared:           []Limit{limit("s", PerCredential)},
		Plans: map[string]Plan{"p": {Description: "d", Limits: []Limit{limit("q", PerCredential)},
			Quota: &Quota{Amount: 100, Counts: CountsRequests, Period: PeriodWeek, Alignment: AlignAnniversary, TimeZone: "Europe/Berlin",
				Over: OverBill, Max: 200, Mode: ModeShadow}}},
		Routes: []Route{
			{Name: "r", Description: "d", Match: []string{"GET /a"}, Identity: IdentityAPIKey, Motive: MotiveQuota, Cost: 5,
				Limits: []Limit{limit("l", PerIP)}, Uses: []string{"s"},
				Concurrency:    &Concurrency{Per: PerCredential, Max: 7, Lease: 90 * time.Second, Mode: ModeShadow},
				OnStoreFailure: open},
			{Name: "settled", Description: "d", Match: []string{"GET /c"}, Identity: IdentityAPIKey, Motive: MotiveAbuse, Cost: 6,
				SettleHeader: "X-Cost", Limits: []Limit{leased("l", "ip,body:name")}, OnStoreFailure: open},
			{Name: "graphql", Description: "d", Match: []string{"GET /d"}, Identity: IdentityAPIKey, Motive: MotiveQuota, Cost: 1,
				GraphQL: &GraphQLCost{Max: 50, DefaultListSize: 7, ListArguments: []string{"top"}, Weights: map[string]int64{"Query.a": 3}, MaxDepth: 5, MaxBreadth: 6},
				Limits:  []Limit{leased("l", "tenant,header:X-Client"), leased("m", PerIP)}, OnStoreFailure: open},
		},
	}
}

// withJWT is everyField with the other way to name a user.
func withJWT() *Document {
	d := everyField()
	d.User = &User{JWT: &UserJWT{JWKSFile: "f", Claim: "c", Issuer: "i", Audience: "a"}}
	return d
}

// others has another good value for each leaf whose values are words.
func others(path string, v reflect.Value) reflect.Value {
	words := map[string]string{
		"Name": "other", "Description": "other", "Scheme": "Other", "Header": "X-Other", "Counts": "cost", "Motive": "fairness",
		"Identity": "ip", "Mode": "closed", "Match": "GET /b", "Uses": "s2", "SettleHeader": "X-Spent", "Period": "day", "Alignment": "calendar",
		"TimeZone": "UTC", "Over": "block", "ListArguments": "limit", "JWKSFile": "g", "Claim": "d", "Issuer": "j", "Audience": "b",
	}
	name := path[strings.LastIndexByte(path, '.')+1:]
	name, _, _ = strings.Cut(name, "[")
	out := reflect.New(v.Type()).Elem()
	switch value := v.Interface().(type) {
	case Per:
		out.SetString(string(map[Per]Per{PerIP: PerGlobal, PerCredential: PerTenant, PerGlobal: PerIP, "ip,body:name": "ip,body:other",
			"tenant,header:X-Client": "tenant,ip"}[value]))
	case LimitMode:
		out.SetString(string(map[LimitMode]LimitMode{ModeShadow: ModeEnforce, ModeEnforce: ModeShadow}[value]))
	case LimitSync:
		out.SetString(string(map[LimitSync]LimitSync{SyncExact: SyncLeased, SyncLeased: SyncExact}[value]))
	case Counts:
		out.SetString(string(map[Counts]Counts{CountsCost: CountsRequests, CountsRequests: CountsCost}[value]))
	case time.Time:
		out.Set(reflect.ValueOf(value.Add(time.Microsecond)))
	case time.Duration:
		out.SetInt(v.Int() * 2)
	case bool:
		out.SetBool(!value)
	default:
		if v.Kind() == reflect.String {
			out.SetString(words[name])
		} else {
			out.SetInt(v.Int() + 1)
		}
	}
	return out
}

// leaves calls visit for each leaf below v with a setter that works on maps too.
func leaves(path string, v reflect.Value, set func(reflect.Value), visit func(path string, v reflect.Value, set func(reflect.Value))) {
	switch {
	case v.Type() == reflect.TypeFor[netip.Prefix](), v.Type() == reflect.TypeFor[time.Time]():
		visit(path, v, set)
	case v.Kind() == reflect.Pointer && v.IsNil():
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
	for name, made := range map[string]func() *Document{"every field": everyField, "with a token": withJWT} {
		visited := 0
		leaves("", reflect.ValueOf(made()).Elem(), nil, func(path string, _ reflect.Value, _ func(reflect.Value)) {
			// A constant; words, below; and what means nothing beside a computed cost.
			if path == ".APIVersion" || strings.HasSuffix(path, ".Unlimited") || strings.HasSuffix(path, ".Share") || path == ".Routes[2].Cost" || path == ".Routes[2].SettleHeader" {
				return
			}
			visited++
			checkField(t, path, made)
		})
		if visited < 110 {
			t.Errorf("%s: only %d fields", name, visited)
		}
	}
}

// checkField changes one field and looks for it everywhere.
func checkField(t *testing.T, path string, made func() *Document) {
	t.Helper()
	base, d := made(), made()
	if r := Validate(base); !r.OK() {
		t.Fatal(r)
	}
	leaves("", reflect.ValueOf(d).Elem(), nil, func(p string, v reflect.Value, set func(reflect.Value)) {
		switch {
		case p != path:
		case v.Type() == reflect.TypeFor[netip.Prefix]():
			set(reflect.ValueOf(netip.MustParsePrefix("192.0.2.0/24")))
		default:
			set(others(p, v))
		}
	})
	if reflect.DeepEqual(d, base) {
		t.Fatalf("%s: the test changes nothing", path)
	}
	if bytes.Equal(d.Canonical(), base.Canonical()) {
		t.Errorf("%s is not in the canonical bytes", path)
	}
	if len(Diff(base, d)) == 0 || len(Diff(d, base)) == 0 {
		t.Errorf("%s is not seen by Diff", path)
	}
	for name, src := range map[string][]byte{"JSON": d.Canonical(), "YAML": d.YAML()} {
		back, r := ParseLoose(src) // a changed name may leave a problem behind
		if !reflect.DeepEqual(back, d.withDefaults()) {
			t.Errorf("%s does not come back from %s: %+v\n%v", path, name, back, r)
		}
	}
}

func TestFields_UnlimitedStandsForTheWholeRate(t *testing.T) {
	t.Parallel()
	d := everyField()
	d.Shared[0] = Limit{Name: "s", Per: PerCredential, Counts: CountsCost, Rate: Rate{Unlimited: true}, Mode: ModeEnforce, Sync: SyncExact}
	d.Routes[0].OnStoreFailure.Fallback = &Fallback{Unlimited: true}
	d.Routes[1].OnStoreFailure.Fallback = &Fallback{Share: true}
	text := string(d.Canonical())
	for _, want := range []string{`"per":"credential","rate":"unlimited"}`, `"fallback":"unlimited"`, `"fallback":"share"`} {
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
		`"description":"d","identity":"api_key","motive":"fairness","cost":1,"uses":["s"],"limits":[{"name":"l","description":"d","per":"tenant","counts":"cost","rate":"5/minute","burst":5,"mode":"enforce","sync":"exact","expires_at":"2027-01-31T00:00:00Z"},` +
		`{"name":"m","per":["tenant","ip"],"rate":"5/minute"}],"concurrency":{"per":"tenant","max":2,"lease":"90s","mode":"enforce"}},` +
		`{"name":"b","match":["/b"],"cost":{"reserve":2,"settle_header":"X-Cost"},"on_store_failure":{"mode":"closed"}},` +
		`{"name":"c","match":["/c"],"cost":{"graphql":{"max":5,"default_list_size":5,"list_arguments":["first"],"weights":{"Query.a":1},"max_depth":5,"max_breadth":5}},"on_store_failure":{"mode":"closed"}}],` +
		`"user":{"jwt":{"jwks_file":"f","claim":"sub","issuer":"i","audience":"a"}},"replicas_expected":2,` +
		`"description":"d","client_ip":{"trusted_proxies":["10.0.0.0/8"],"header":"X-Forwarded-For","ipv6_prefix":64},` +
		`"credentials":{"headers":[{"name":"X-Key","scheme":"Key"}],"invalid":{"per":"ip","rate":"5/minute","burst":5}},` +
		`"global":{"limits":[]},"shared":[{"name":"s","per":"tenant","rate":"5/minute"}],"plans":{"p":{"description":"d","limits":[],"quota":{"amount":10,"counts":"cost","period":"month","alignment":"calendar","time_zone":"UTC","over":"bill","max":20,"mode":"enforce"}}}}`
	base, err := readSource([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, r := Parse([]byte(text)); !r.OK() {
		t.Fatal(r)
	}
	takes := map[string][]string{ // kinds that a field takes, besides those of its own value
		"description": {"text"}, "cost": {"number"}, "burst": {"number"}, "ipv6_prefix": {"number"}, "replicas_expected": {"number"},
		"amount": {"number"}, "max": {"number"}, "reserve": {"number"}, "default_list_size": {"number"}, "max_depth": {"number"},
		"max_breadth": {"number"}, "a": {"number"}, "jwks_file": {"text"}, "claim": {"text"}, "issuer": {"text"}, "audience": {"text"},
		"per[0]": {"text"}, "per[1]": {"text"}, "list_arguments[0]": {"text"}, // told at the list
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
