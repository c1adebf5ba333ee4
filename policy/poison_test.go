package policy

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// poison are values that programs stumble over, for each kind of field.
func poison(t *rapid.T, kind reflect.Kind) any {
	switch kind {
	case reflect.String:
		return rapid.SampledFrom([]string{"", " ", "\x00", "ip,", ",", ",,,,", "header:", "body:", "header:\r\n", "global,global", "tenant,ip,user,credential,header:a",
			"unlimited", "share", "-1", "1e9", "NaN", "../../etc", "Local", "Europe/Berlin", "\xff\xfe", "a.b.c", strings.Repeat("ü", 2000), "concurrency", "quota", "*.*"}).Draw(t, "text")
	case reflect.Bool:
		return rapid.Bool().Draw(t, "bool")
	default:
		return rapid.SampledFrom([]int64{0, 1, -1, 2, 50, 999, 1000, 1001, 1 << 48, 1<<48 - 1, 1 << 53, 1<<53 - 1, math.MaxInt64, math.MinInt64, math.MaxInt32}).Draw(t, "number")
	}
}

// poisoned sets some leaves of a document to poison.
func poisoned(t *rapid.T, d *Document) {
	share := rapid.IntRange(2, 40).Draw(t, "one in")
	leaves("", reflect.ValueOf(d).Elem(), nil, func(_ string, v reflect.Value, set func(reflect.Value)) {
		if rapid.IntRange(1, share).Draw(t, "which") != 1 {
			return
		}
		switch v.Interface().(type) {
		case time.Time:
			set(reflect.ValueOf(time.Unix(rapid.Int64().Draw(t, "seconds"), 0)))
			return
		case time.Duration, int64, int:
			out := reflect.New(v.Type()).Elem()
			out.SetInt(poison(t, reflect.Int64).(int64))
			set(out)
			return
		}
		switch v.Kind() {
		case reflect.String, reflect.Bool:
			set(reflect.ValueOf(poison(t, v.Kind())).Convert(v.Type()))
		default: // ranges of addresses
		}
	})
}

// However a document was put together, everything that can be asked of it has an
// answer; and what validates compiles, has the same meaning after being written
// and read, and differs from nothing by itself.
func TestDocument_PoisonIsAnsweredAndNeverPanics(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := everyField()
		poisoned(t, d)
		r := Validate(d)
		canonical := d.Canonical()
		d.YAML()
		Diff(everyField(), d)
		Diff(d, everyField())
		c, err := Compile(d)
		if r.OK() != (err == nil) {
			t.Fatalf("report %v, compile %v", r, err)
		}
		back, again := ParseLoose(canonical)
		if !r.OK() {
			return
		}
		if back == nil || !again.OK() {
			t.Fatalf("was valid and is read back with\n%v\nfrom %s", again, canonical)
		}
		if !bytes.Equal(back.Canonical(), canonical) || len(Diff(back, d)) > 0 {
			t.Fatalf("comes back as\n%s\nand was\n%s", back.Canonical(), canonical)
		}
		for plan := range c.Plans {
			c.Effective(plan)
		}
		for _, q := range c.Quotas {
			if start, end := q.PeriodAt(time.Unix(1_800_000_000, 0), time.Time{}, nil); !end.IsZero() && !end.After(start) {
				t.Fatalf("period %s to %s", start, end)
			}
		}
	})
}

// A document that was put together by hand and validates can always be read back.
func TestValidate_RefusesTextsThatCannotBeReadBack(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"\x00", "\xff", "a\u202eb", strings.Repeat("a", 1001), "a\u2028"} {
		for path, change := range map[string]func(d *Document){
			"description":                     func(d *Document) { d.Description = bad },
			"plans.p.description":             func(d *Document) { d.Plans["p"] = Plan{Description: bad} },
			"shared[0].description":           func(d *Document) { d.Shared[0].Description = bad },
			"routes[0].description":           func(d *Document) { d.Routes[0].Description = bad },
			"routes[0].limits[0].description": func(d *Document) { d.Routes[0].Limits[0].Description = bad },
			"user.jwt.issuer":                 func(d *Document) { d.User.JWT.Issuer = bad },
			"user.jwt.claim":                  func(d *Document) { d.User.JWT.Claim = bad },
			"user.jwt.jwks_file":              func(d *Document) { d.User.JWT.JWKSFile = bad },
		} {
			d := withJWT()
			change(d)
			if r := Validate(d); len(r.Problems) != 1 || r.Problems[0].Path != path {
				t.Errorf("%q at %s: %v", bad, path, r)
			}
		}
	}
}

// A text of any shape with known fields in it is answered too.
func TestParse_PoisonedTextNeverPanics(t *testing.T) {
	t.Parallel()
	src := string(readTestdata(t, "layers.yaml"))
	words := []string{"null", "~", "[]", "{}", "-1", "0", "1.5", "\"\"", "[[]]", "{a: b}", "9007199254740993", "\"\\0\"", "&a 1", "*a", "!!int 1", "true",
		"[tenant, tenant]", "{graphql: {}}", "{reserve: 1}", "{settle_header: X}", "{graphql: {max: 1}, reserve: 2}", "unlimited", "share", "2027-01-01T00:00:00Z"}
	rapid.Check(t, func(t *rapid.T) {
		text := src
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			lines := strings.Split(text, "\n")
			at := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
			spots := strings.Split(lines[at], ": ")
			if len(spots) < 2 {
				continue
			}
			spot := rapid.IntRange(1, len(spots)-1).Draw(t, "value")
			end := strings.IndexAny(spots[spot], ",}]")
			if end < 0 {
				end = len(spots[spot])
			}
			spots[spot] = rapid.SampledFrom(words).Draw(t, "poison") + spots[spot][end:]
			lines[at] = strings.Join(spots, ": ")
			text = strings.Join(lines, "\n")
		}
		d, r := ParseLoose([]byte(text))
		if r.OK() != (d != nil && Validate(d).OK()) && d != nil && r.OK() {
			t.Fatalf("read without a problem and not valid: %v", Validate(d))
		}
		if d == nil {
			return
		}
		d.Canonical()
		Diff(d, d)
	})
}
