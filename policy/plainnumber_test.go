package policy

import (
	"fmt"
	"strings"
	"testing"
)

func TestPlainNumber_SaysWhatWasMostLikelyMeant(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"1,000": "1000", "1.000": "1000", "1 000": "1000", "1_000": "1000", "1'000": "1000", "1\u00a0000": "1000", "1\u202f000": "1000", "1,000,000": "1000000",
		"1e3": "1000", "1E3": "1000", "1.5e3": "1500", "1e+3": "1000", "+1000": "1000", "1000.0": "1000", "010": "10", "1k": "1000", "2K": "2000", "3M": "3000000", "1.5k": "1500", " 5 ": "5", "5": "5",
		"1.5": "", "1,5": "", "1,00": "", "": "", "x": "", "1e99": "", "0x10": "", "-5": "", "1e309": "", "NaN": "", "99999999999999999999": "", "000,000": "",
	} {
		if got := PlainNumber(s); got != want {
			t.Errorf("%q was read as %q, want %q", s, got, want)
		}
	}
}

// a number that people read differently is an error that says what would be
// right, and is never read as 1, wherever a number stands.
func TestR098_AmbiguousNumbersAreRefused(t *testing.T) {
	t.Parallel()
	places := map[string]string{ // in YAML; in JSON the same words are texts
		"routes[0].limits[0].burst":                "  limits: [{name: a, per: tenant, rate: 5/minute, burst: %s}]\n",
		"routes[0].cost":                           "  cost: %s\n",
		"routes[0].cost.reserve":                   "  cost: {reserve: %s, settle_header: X-Cost}\n",
		"routes[0].cost.graphql.max":               "  cost: {graphql: {max: %s}}\n",
		"routes[0].concurrency.max":                "  concurrency: {per: tenant, max: %s, lease: 90s}\n",
		"plans.p.quota.amount":                     "plans: {p: {quota: {amount: %s, period: day}}}\n",
		"plans.p.quota.max":                        "plans: {p: {quota: {amount: 1, over: bill, max: %s, period: day}}}\n",
		"replicas_expected":                        "replicas_expected: %s\n",
		"client_ip.ipv6_prefix":                    "client_ip: {ipv6_prefix: %s}\n",
		"credentials.invalid.burst":                "credentials: {invalid: {rate: 5/minute, burst: %s}}\n",
		"routes[0].limits[0].rate":                 "  limits: [{name: a, per: tenant, rate: %s/minute}]\n",
		"credentials.invalid.rate":                 "credentials: {invalid: {rate: %s/minute}}\n",
		"routes[1].on_store_failure.fallback.rate": "- {name: b, match: [/b], on_store_failure: {mode: open, fallback: {rate: %s/minute}}}\n",
	}
	for path, place := range places {
		for _, written := range []string{"1.000", "1e3", "1 000", "1_000", `"1,000"`, `"1000"`, `"1\u00a0000"`, "+1000", "1000.0", "1k", "01000", ".nan", "1e309"} {
			if strings.HasSuffix(path, "rate") {
				written = strings.Trim(written, `"`)
				if written == "1000" {
					continue // that is how a rate is written
				}
				written = strings.ReplaceAll(written, `\u00a0`, "\u00a0")
			}
			src := smallest + fmt.Sprintf(place, written)
			if strings.HasSuffix(path, "rate") {
				src = smallest + fmt.Sprintf(strings.Replace(place, "%s/minute", "\"%s/minute\"", 1), written)
			}
			d, r := Parse([]byte(src))
			p, ok := problemAt(r.Problems, path, "plain digits")
			if d != nil || !ok {
				t.Errorf("%s as %s: %v", path, written, r)
				continue
			}
			want := "write 1000 if that is meant"
			switch written {
			case ".nan", "1e309":
				want = "not"
			case `"1000"`:
				want = "write it without quotes"
			}
			if !strings.Contains(p.Message, want) && !strings.HasSuffix(path, "rate") || strings.Contains(p.Message, "write 1 ") {
				t.Errorf("%s as %s: %s, want %s", path, written, p.Message, want)
			}
		}
	}
	for _, written := range []string{`1.000`, `1e3`, `1E3`, `"1,000"`, `"1 000"`, `1000.0`} {
		src := fmt.Sprintf(`{"apiVersion":"headgate/v1","routes":[{"name":"a","match":["/"],"cost":1,"limits":[{"name":"l","per":"tenant","rate":"5/minute","burst":%s}],"on_store_failure":{"mode":"closed"}}]}`, written)
		_, r := Parse([]byte(src))
		if _, ok := problemAt(r.Problems, "routes[0].limits[0].burst", "write 1000 if that is meant"); !ok {
			t.Errorf("JSON %s: %v", written, r)
		}
	}
}
