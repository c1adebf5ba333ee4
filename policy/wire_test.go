package policy

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// These shapes are read by other builds and other programs: docs/redis.md.
func TestRecords_StandInJSONAsDocumented(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"key": {
			KeyRecord{KID: "0123456789AB", Tenant: "ten_a", Credential: "crd_a", Environment: "live", Digest: "sha256:00", State: KeyRetiring, RetiringAt: &at, NotAfter: &at, Scopes: []string{"read"}},
			`{"kid":"0123456789AB","tenant":"ten_a","credential":"crd_a","environment":"live","digest":"sha256:00","state":"retiring",` +
				`"retiring_at":"2026-11-30T12:00:00Z","not_after":"2026-11-30T12:00:00Z","scopes":["read"]}`,
		},
		"smallest key": {
			KeyRecord{KID: "0123456789AB", Tenant: "ten_a", Credential: "crd_a", Environment: "test", Digest: "sha256:00", State: KeyRevoked},
			`{"kid":"0123456789AB","tenant":"ten_a","credential":"crd_a","environment":"test","digest":"sha256:00","state":"revoked"}`,
		},
		"tenant": {TenantRecord{ID: "ten_a", Plan: "pro", State: TenantSuspended}, `{"id":"ten_a","plan":"pro","state":"suspended"}`},
		"stamp": {
			Stamp{Version: 42, Digest: "sha256:00", Issued: at, Signer: "s", Signature: []byte{1, 2}},
			`{"version":42,"digest":"sha256:00","issued":"2026-11-30T12:00:00Z","signer":"s","signature":"AQI="}`,
		},
		"place":   {Place{Epoch: "e", Seq: 7}, `{"epoch":"e","seq":7}`},
		"nack":    {NACK{Version: 43, Code: NACKBadDigest, Detail: "d", Since: at}, `{"version":43,"code":"bad-digest","detail":"d","since":"2026-11-30T12:00:00Z"}`},
		"problem": {Problem{Path: "routes[0].rate", Line: 3, Message: "is missing", beyond: true}, `{"path":"routes[0].rate","line":3,"message":"is missing"}`},
		"report":  {Report{Problems: []Problem{}, Warnings: []Problem{{Message: "m"}}}, `{"problems":[],"warnings":[{"path":"","message":"m"}]}`},
		"change": {
			Change{Path: "p", LimitID: "plan.a", Kind: ChangeChanged, Before: "1/day", After: "2/day", Effect: EffectLooser, Text: "t"},
			`{"path":"p","limit_id":"plan.a","kind":"changed","before":"1/day","after":"2/day","effect":"looser","text":"t"}`,
		},
	} {
		got, err := json.Marshal(c.value)
		if err != nil || string(got) != c.want {
			t.Errorf("%s is %s (%v), want %s", name, got, err, c.want)
			continue
		}
		back := reflect.New(reflect.TypeOf(c.value))
		if err := json.Unmarshal(got, back.Interface()); err != nil {
			t.Errorf("%s does not come back: %v", name, err)
		}
		again, err := json.Marshal(back.Interface())
		if err != nil || string(again) != c.want {
			t.Errorf("%s comes back as %s (%v)", name, again, err)
		}
	}
}

func TestHeartbeat_HasNoFieldWithoutAName(t *testing.T) {
	t.Parallel()
	for f := range reflect.TypeFor[Heartbeat]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name != strings.ToLower(name) {
			t.Errorf("field %s stands as %q in JSON", f.Name, name)
		}
	}
}

// A stored bucket is found by this hash: it must never change. Computed with
// sha256sum.
func TestLimitHash_StaysAsItIs(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]uint64{
		"":    0xe3b0c44298fc1c14,
		"abc": 0xba7816bf8f01cfea,
	} {
		if got := LimitHash(id); got != want {
			t.Errorf("LimitHash(%q) = %#x, want %#x", id, got, want)
		}
	}
}

func TestNumbers_FullAndBlocked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		n       Numbers
		full    int64
		blocked bool
	}{
		{Numbers{Tokens: 1, Period: 1_000_000, Burst: 60}, 60_000_000, false},
		{Numbers{Tokens: 1, Period: 1, Burst: 0}, 0, true},
		{Numbers{Tokens: 0, Period: 1, Burst: 0}, 0, true},
	} {
		if c.n.Full() != c.full || c.n.Blocked() != c.blocked {
			t.Errorf("%+v: full %d, blocked %v", c.n, c.n.Full(), c.n.Blocked())
		}
	}
}

// The manual's example is one that works.
func TestDocs_TheExampleIsValid(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/policy-format.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	src, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/policy-format.md has no example")
	}
	if _, r := Parse([]byte(src)); !r.OK() || len(r.Warnings) > 0 {
		t.Errorf("problems %v, warnings %v", r.Problems, r.Warnings)
	}
}

// What the manual says of its bounds is what the code does.
func TestDocs_NameTheBounds(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/policy-format.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| routes · plans · shared limits | 10 000 · 1 000 · 1 000 |", "| patterns of a route · of all routes | 64 · 20 000 |",
		"400 000 values, 32 levels", "600 000 line ends", "| credential headers · trusted proxies | 8 · 1 000 |", "| 16 each |", "| 1 000 bytes |",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/policy-format.md does not say %q", want)
		}
	}
	if maxRoutes != 10_000 || maxPlans != 1_000 || maxShared != 1_000 || maxMatches != 64 || maxPatterns != 20_000 || maxValues != 400_000 ||
		maxDepth != 32 || maxYAMLMarks != 600_000 || maxHeaders != 8 || maxTrustedProxies != 1_000 || maxLimits != 16 || maxUses != 16 {
		t.Error("a bound changed: change docs/policy-format.md and this test with it")
	}
}
