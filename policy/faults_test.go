package policy

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// What is published comes back as it was, from each form in which it leaves.
func TestI24_ImportOfAnExportIsTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := genDocument().Draw(t, "document")
		want := d.Canonical()
		for form, src := range map[string][]byte{"canonical": want, "JSON": d.JSON(), "YAML": d.YAML()} {
			back, r := Parse(src)
			if !r.OK() {
				t.Fatalf("%s: %v\n%s", form, r, src)
			}
			if !bytes.Equal(back.Canonical(), want) {
				t.Fatalf("%s comes back as\n%s, was\n%s", form, back.Canonical(), want)
			}
			if changes := Diff(d, back); len(changes) != 0 {
				t.Fatalf("%s: changes %+v", form, changes)
			}
		}
	})
}

// The digests of documents are the same in every build: a version that was signed
// by an older one still verifies.
func TestI24_DigestsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"example.canonical.json": "sha256:5faab57d187d13f17295935c184312367d885ba48c08fd25776ccf4ef8da38ef",
		"layers.canonical.json":  "sha256:f9aed831dcfad366bfeba4aa92b2e2754c8afaf2cfa1b6c22ee037752b69b562",
	} {
		src := readTestdata(t, name)
		d, r := Parse(src)
		if !r.OK() {
			t.Fatalf("%s: %v", name, r)
		}
		if got := DigestOf(d.Canonical()); got != want || DigestOf(src) != want {
			t.Errorf("%s: digest %s, want %s", name, got, want)
		}
	}
}

// bombNames are the fourteen that every door of the product must survive.
func bombNames() []string {
	return []string{
		"too large", "billion laughs", "deep JSON lists", "deep JSON maps", "deep YAML flow", "deep YAML blocks", "deep YAML flow maps",
		"many JSON values", "many JSON keys", "many YAML items", "many YAML keys", "many documents", "long number", "invalid UTF-8",
	}
}

// Eight callers at once send each bomb: each gets a problem that says what is too
// much, and none is parsed to the end.
func TestA10_FourteenBombsByEightCallersAtOnce(t *testing.T) {
	t.Parallel()
	all := bombs()
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for _, name := range bombNames() {
				d, r := Parse(all[name])
				if d != nil || len(r.Problems) == 0 || r.Problems[0].Message == "" || len(r.Error()) > 1000 {
					t.Errorf("%s: document %v, %d problems, %.200s", name, d, len(r.Problems), r.Error())
				}
			}
		})
	}
	callers.Wait()
}

func TestA10_WhatIsNoNumberOrThereTwiceIsNamed(t *testing.T) {
	t.Parallel()
	limit := `{"apiVersion":"headgate/v1","routes":[{"name":"a","match":["/"],"on_store_failure":{"mode":"closed"},"limits":[{"name":"l","per":"tenant","rate":"5/minute","burst":%s}]}]}`
	for src, want := range map[string]string{
		fmt.Sprintf(limit, "NaN"):                        "line 1: routes[0].limits[0].burst: is not valid JSON",
		fmt.Sprintf(limit, "1e309"):                      "line 1: routes[0].limits[0].burst: must be a whole number in plain digits, not the number 1e309",
		fmt.Sprintf(limit, "9223372036854775808"):        "is too large: the largest allowed is 281474976710655",
		fmt.Sprintf(limit, "-1"):                         "is too small: the smallest allowed is 0",
		fmt.Sprintf(limit, `5,"burst":6`):                "line 1: routes[0].limits[0].burst: is there twice, first on line 1",
		fmt.Sprintf(limit, `5,"brust":6`):                "line 1: routes[0].limits[0].brust: is not a known field; known here: burst, counts",
		smallest + "replicas_expected: .nan\n":           "line 6: replicas_expected: must be a whole number",
		smallest + "replicas_expected: .inf\n":           "line 6: replicas_expected: must be a whole number",
		smallest + "replicas_expected: 1e309\n":          "line 6: replicas_expected: must be a whole number",
		smallest + "description: &a x\n":                 "line 6: description: has the anchor &a: anchors are not allowed",
		smallest + "description: *a\n":                   "not valid YAML: unknown anchor",
		smallest + "client_ip: {<<: {header: X}}\n":      "line 6: client_ip: has a merge key (<<)",
		smallest + "description: !!binary eA==\n":        "has the tag !!binary",
		smallest + "description: \"a\\xffb\"\n" + "\xff": "line 7: document: is not valid UTF-8",
	} {
		d, r := Parse([]byte(src))
		if d != nil || !strings.Contains(r.Error(), want) {
			t.Errorf("%s\n%v, want %s", src, r, want)
		}
	}
}

// There are no regular expressions: what looks like one is text of a segment, or
// refused, and costs nothing to match.
func TestA11_PatternsThatLookLikeExpressionsAreText(t *testing.T) {
	t.Parallel()
	for _, evil := range []string{"(a+)+$", "(.*)*", "x{1000}{1000}", "(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "[a-z]*[a-z]*[a-z]*$", "(?:x+x+)+y", ".*.*.*.*=", "(a{1,1000}){1,1000}", strings.Repeat("(", 600)} {
		d := &Document{APIVersion: APIVersion, Routes: []Route{{Name: "evil", Match: []string{"/" + evil}, OnStoreFailure: StoreFailure{Mode: FailClosed}}}}
		c, err := Compile(d)
		if err != nil {
			continue // refused
		}
		for _, path := range []string{"/" + strings.Repeat("a", 8<<10), "/" + strings.Repeat("x", 8<<10) + "!", strings.Repeat("/a", 4<<10)} {
			if visits, _ := visit(c.router.hosts[""], "GET", path); visits > 3 {
				t.Errorf("%s against a path of 8 KiB: %d nodes", evil, visits)
			}
			if r, ok := c.Match("GET", "", path); ok {
				t.Errorf("%s matches %.20s…: %s", evil, path, r.Name)
			}
		}
	}
}

// visit is pathNode.match, counted: how many nodes a match looks at.
func visit(n *pathNode, method, path string) (visits int, found *pattern) {
	if n == nil {
		return 0, nil
	}
	if path == "" {
		return 1, byMethod(n.ends, method)
	}
	text, rest := cutSegment(path)
	if text == "" {
		text, rest = "/", ""
	} else if plain, ok := unescape(text); ok {
		text = plain
	}
	visits, found = visit(n.literals[text], method, rest)
	if found == nil && text != "/" {
		more, p := visit(n.wild, method, rest)
		visits, found = visits+more, p
	}
	if found == nil {
		found = byMethod(n.rests, method)
	}
	return visits + 1, found
}

// A match looks at as many nodes as the path has segments, however many routes
// there are.
func TestA11_MatchLooksAtAsMuchOfManyRoutesAsOfFew(t *testing.T) {
	t.Parallel()
	most := map[int]int{}
	for _, n := range []int{100, maxRoutes} {
		c := manyRoutes(t, n)
		for i := range 500 {
			at := i * n / 500
			path := fmt.Sprintf("/v1/group%d/things/%d/part%d", at%97, i, at)
			visits, found := visit(c.router.hosts[""], "GET", path)
			if want, ok := c.Match("GET", "", path); !ok || found == nil || found.route != c.router.match("GET", "", path).route || want.Name != fmt.Sprintf("r%d", at) {
				t.Fatalf("%s: the count follows another way than the match", path)
			}
			most[n] = max(most[n], visits)
		}
	}
	if most[maxRoutes] > 2*most[100] || most[maxRoutes] > 6 {
		t.Errorf("a match looks at up to %d nodes of 100 routes and %d of %d", most[100], most[maxRoutes], maxRoutes)
	}
}

// Ten thousand documents that were right until somebody turned a value over: each
// ends in a report that names a field, or in a document that can be enforced.
func TestB1_TenThousandPoisonsEndInAReportOrAPolicy(t *testing.T) {
	t.Parallel()
	values := []string{`null`, `""`, `" "`, `0`, `-1`, `1e309`, `9007199254740993`, `[]`, `{}`, `[null]`, `{"":null}`, `true`, `"\ud800"`, `"unlimited"`, `"0"`, `281474976710655`, `"` + strings.Repeat("x", 2000) + `"`}
	base := string(everyPart().Canonical())
	var places []int
	for at := range base {
		if valueEnd(base, at) >= 0 {
			places = append(places, at)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for range 10_000 {
		src := base
		for range 1 + random.IntN(2) {
			at := places[random.IntN(len(places))]
			if end := valueEnd(src, min(at, len(src)-1)); end >= 0 {
				src = src[:at+1] + values[random.IntN(len(values))] + src[end:]
			}
		}
		d, r := Parse([]byte(src))
		if (d == nil) == r.OK() {
			t.Fatalf("document %v and report %v for %s", d, r, src)
		}
		if d == nil {
			if r.Problems[0].Message == "" {
				t.Fatalf("a problem without words for %s", src)
			}
			continue
		}
		taken++
		if _, err := Compile(d); err != nil {
			t.Fatalf("a valid document does not compile: %v\n%s", err, src)
		}
	}
	if taken == 0 || taken > 5_000 {
		t.Errorf("%d of 10 000 were taken: this shows little", taken)
	}
}
