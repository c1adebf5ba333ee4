package policy

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files anew")

func readTestdata(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// golden compares with a file. These bytes are hashed and signed: a change here
// changes the digest of every published policy.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.Join("testdata", name), got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := readTestdata(t, name); !bytes.Equal(got, want) {
		t.Errorf("%s differs; got\n%s", name, got)
	}
}

func TestCanonical_BytesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	d := example(t)
	golden(t, "example.canonical.json", d.Canonical())
	golden(t, "example.pretty.json", d.JSON())
	golden(t, "example.out.yaml", d.YAML())
	if got, want := DigestOf(d.Canonical()), "sha256:"; len(got) != len(want)+64 {
		t.Errorf("digest %s", got)
	}
}

func TestCanonical_IsTheSameFromEverySpelling(t *testing.T) {
	t.Parallel()
	want := example(t).Canonical()
	for _, name := range []string{"example.canonical.json", "example.pretty.json", "example.out.yaml"} {
		d, r := Parse(readTestdata(t, name))
		if !r.OK() {
			t.Errorf("%s: %v", name, r)
			continue
		}
		if got := d.Canonical(); !bytes.Equal(got, want) {
			t.Errorf("%s has other bytes:\n%s", name, got)
		}
		if !reflect.DeepEqual(d, example(t)) {
			t.Errorf("%s is another document", name)
		}
	}
}

func TestCanonical_KeysAreSortedAndNothingIsSpare(t *testing.T) {
	t.Parallel()
	got := example(t).Canonical()
	var compact bytes.Buffer
	if err := json.Compact(&compact, got); err != nil || !bytes.Equal(compact.Bytes(), got) {
		t.Errorf("canonical bytes have spaces or are not JSON (%v)", err)
	}
	var keysOf func(raw json.RawMessage)
	keysOf = func(raw json.RawMessage) {
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil {
			for _, item := range list {
				keysOf(item)
			}
			return
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
			return
		}
		var keys []string
		for dec.More() {
			k, err := dec.Token()
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, k.(string))
			var v json.RawMessage
			if err := dec.Decode(&v); err != nil {
				t.Fatal(err)
			}
			keysOf(v)
		}
		if !slices.IsSorted(keys) {
			t.Errorf("keys %q are not sorted", keys)
		}
	}
	keysOf(got)
}

// A document put together by hand and one from text have the same bytes.
func TestCanonical_FillsInDefaults(t *testing.T) {
	t.Parallel()
	byHand := &Document{
		APIVersion: APIVersion,
		Routes: []Route{{
			Name:           "all",
			Match:          []string{"/"},
			Limits:         []Limit{{Name: "a", Per: PerTenant, Rate: Rate{Tokens: 5, Period: time.Minute}, Burst: 5}},
			OnStoreFailure: StoreFailure{Mode: FailClosed},
		}},
	}
	const want = `{"apiVersion":"headgate/v1","client_ip":{"header":"X-Forwarded-For","ipv6_prefix":64},` +
		`"credentials":{"headers":[{"name":"Authorization","scheme":"Bearer"},{"name":"X-API-Key"}],"invalid":{"burst":30,"per":"ip","rate":"30/minute"}},` +
		`"routes":[{"cost":1,"identity":"api_key","limits":[{"burst":5,"counts":"cost","name":"a","per":"tenant","rate":"5/minute"}],` +
		`"match":["/"],"motive":"fairness","name":"all","on_store_failure":{"mode":"closed"}}]}`
	if got := string(byHand.Canonical()); got != want {
		t.Errorf("canonical is\n%s, want\n%s", got, want)
	}
	parsed, r := Parse([]byte(`{apiVersion: headgate/v1, routes: []}`))
	if r.OK() || parsed != nil {
		t.Error("flow YAML that is not JSON was taken as JSON")
	}
	parsed, r = Parse([]byte("apiVersion: headgate/v1\nroutes:\n- name: all\n  match: [/]\n  on_store_failure: {mode: closed}\n" +
		"  limits: [{name: a, per: tenant, rate: 5/60s, sync: exact, mode: enforce}]\n"))
	if !r.OK() {
		t.Fatal(r)
	}
	if got := string(parsed.Canonical()); got != want {
		t.Errorf("parsed canonical is\n%s, want\n%s", got, want)
	}
}

func TestCanonical_DoesNotChangeTheDocument(t *testing.T) {
	t.Parallel()
	d := &Document{APIVersion: APIVersion, Routes: []Route{{Name: "a", Limits: []Limit{{Name: "l"}}}}, Plans: map[string]Plan{"p": {Limits: []Limit{{Name: "q"}}}}}
	d.Canonical()
	if d.Routes[0].Cost != 0 || d.Routes[0].Limits[0].Counts != "" || d.Plans["p"].Limits[0].Counts != "" || d.ClientIP.Header != "" {
		t.Errorf("Canonical wrote into its document: %+v", d)
	}
}

// Every valid document survives each of its spellings, and compiles.
func TestDocument_ComesBackFromItsOwnText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := genDocument().Draw(t, "document")
		if r := Validate(d); !r.OK() {
			t.Fatalf("generated document has problems:\n%v", r)
		}
		want := d.Canonical()
		for name, text := range map[string][]byte{"canonical": want, "JSON": d.JSON(), "YAML": d.YAML()} {
			back, r := Parse(text)
			if !r.OK() {
				t.Fatalf("%s has problems:\n%v\n%s", name, r, text)
			}
			if got := back.Canonical(); !bytes.Equal(got, want) {
				t.Fatalf("%s comes back as\n%s, want\n%s\nfrom\n%s", name, got, want, text)
			}
			if changes := Diff(d, back); len(changes) != 0 {
				t.Fatalf("%s differs from its source: %+v", name, changes)
			}
		}
		c, err := Compile(d)
		if err != nil {
			t.Fatal(err)
		}
		if c.Digest != DigestOf(want) {
			t.Fatalf("compiled digest %s is not that of the canonical bytes", c.Digest)
		}
	})
}

// A draft that is not finished leaves as it is: nothing that is missing comes back
// as a value, least of all as the rate 0.
func TestYAML_WhatIsMissingStaysMissing(t *testing.T) {
	t.Parallel()
	for path, clear := range map[string]func(d *Document){
		"routes[0].limits[0].rate":                 func(d *Document) { d.Routes[0].Limits[0].Rate = Rate{} },
		"routes[0].limits[0].per":                  func(d *Document) { d.Routes[0].Limits[0].Per = "" },
		"routes[0].concurrency.per":                func(d *Document) { d.Routes[0].Concurrency.Per = "" },
		"routes[0].match":                          func(d *Document) { d.Routes[0].Match = nil },
		"routes[0].on_store_failure":               func(d *Document) { d.Routes[0].OnStoreFailure = StoreFailure{} },
		"routes[0].on_store_failure.fallback.rate": func(d *Document) { d.Routes[0].OnStoreFailure.Fallback = &Fallback{} },
		"routes[0].on_store_failure.fallback":      func(d *Document) { d.Routes[0].OnStoreFailure.Fallback = nil },
		"shared[0].rate":                           func(d *Document) { d.Shared[0].Rate = Rate{} },
		"global.limits[0].per":                     func(d *Document) { d.Global.Limits[0].Per = "" },
	} {
		d := everyPart()
		clear(d)
		if _, ok := problemAt(Validate(d).Problems, path, "is missing"); !ok {
			t.Errorf("%s: %v", path, Validate(d))
		}
		for form, src := range map[string][]byte{"YAML": d.YAML(), "JSON": d.JSON()} {
			if _, r := Parse(src); r.OK() {
				t.Errorf("%s is there again in %s:\n%s", path, form, src)
			} else if _, ok := problemAt(r.Problems, path, "is missing"); !ok {
				t.Errorf("%s in %s: %v", path, form, r)
			}
		}
	}
}
