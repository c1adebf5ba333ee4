package graphql

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

const jsonType = "application/json"

func TestParseRequest_ReadsWhatClientsSend(t *testing.T) {
	t.Parallel()
	n10 := map[string]any{"n": json.Number("10")}
	for _, c := range []struct {
		name, method, contentType, body, query string
		want                                   []Operation
	}{
		{"JSON", "POST", jsonType, `{"query":"{a}"}`, "", []Operation{{Query: "{a}"}}},
		{"JSON in full", "POST", "application/json; charset=UTF-8", ` {"operationName":"A","query":"query A{a}","variables":{"n":10},"extensions":{"x":1}} `, "",
			[]Operation{{"query A{a}", "A", n10}}},
		{"nulls", "POST", jsonType, `{"query":"{a}","variables":null,"operationName":null,"extensions":null}`, "", []Operation{{Query: "{a}"}}},
		{"a batch", "POST", jsonType, `[{"query":"{a}"},{"query":"{b}","variables":{"n":10}}]`, "", []Operation{{Query: "{a}"}, {Query: "{b}", Variables: n10}}},
		{"a query alone", "POST", "application/graphql", `{a}`, "", []Operation{{Query: "{a}"}}},
		{"parameters of others", "POST", jsonType, `{"query":"{a}"}`, "tag=1&v=2", []Operation{{Query: "{a}"}}},
		{"in the URL", "GET", "", "", "query=%7Ba%7D&x=1", []Operation{{Query: "{a}"}}},
		{"HEAD", "HEAD", "", "", "query={a}", []Operation{{Query: "{a}"}}},
		{"in the URL in full", "GET", "", "", "query=query+A{a}&operationName=A&variables=%7B%22n%22%3A10%7D&extensions={}", []Operation{{"query A{a}", "A", n10}}},
		{"blank parameters", "GET", "", "", "query={a}&operationName=&variables=&extensions=", []Operation{{Query: "{a}"}}},
	} {
		got, err := ParseRequest(c.method, c.contentType, []byte(c.body), c.query)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}

func TestParseRequest_RefusesWhatUpstreamsReadDifferently(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, method, contentType, body, query string }{
		{"the query twice", "POST", jsonType, `{"query":"{a}","query":"{expensive}"}`, ""},
		{"the query twice, escaped", "POST", jsonType, `{"query":"{a}","\u0071uery":"{expensive}"}`, ""},
		{"the query in other letters", "POST", jsonType, `{"query":"{a}","Query":"{expensive}"}`, ""},
		{"a variable twice", "POST", jsonType, `{"query":"{a}","variables":{"n":1,"n":1000}}`, ""},
		{"deep inside twice", "POST", jsonType, `{"query":"{a}","variables":{"n":[{"a":1,"a":2}]}}`, ""},
		{"an unknown member", "POST", jsonType, `{"query":"{a}","documentId":"x"}`, ""},
		{"an unknown member without a name", "POST", jsonType, `{"query":"{a}","":"x"}`, ""},
		{"a query in the URL, too", "POST", jsonType, `{"query":"{a}"}`, "query={expensive}"},
		{"variables in the URL", "POST", jsonType, `{"query":"{a}"}`, "variables={}"},
		{"a name in the URL", "POST", "application/graphql", `query A{a} query B{b}`, "operationName=A"},
		{"a list in the URL", "POST", jsonType, `{"query":"{a}"}`, "query[]={expensive}"},
		{"other letters in the URL", "POST", jsonType, `{"query":"{a}"}`, "QUERY={expensive}"},
		{"an escaped name in the URL", "POST", jsonType, `{"query":"{a}"}`, "%71uery={expensive}"},
		{"a NUL in the URL", "POST", jsonType, `{"query":"{a}"}`, "query%00={expensive}"},
		{"a space in the URL", "POST", jsonType, `{"query":"{a}"}`, "+query={expensive}"},
		{"the URL twice", "GET", "", "", "query={a}&query={expensive}"},
		{"the URL twice, escaped", "GET", "", "", "query={a}&%71uery={expensive}"},
		{"a list beside it in the URL", "GET", "", "", "query={a}&query[]={expensive}"},
		{"a semicolon in the URL", "GET", "", "", "query={a};query={expensive}"},
		{"a broken URL", "GET", "", "", "query=%zz"},
		{"invalid UTF-8 in the URL", "GET", "", "", "query={a}%ff"},
		{"broken variables in the URL", "GET", "", "", "query={a}&variables={"},
		{"variables twice in the URL", "GET", "", "", `query={a}&variables={"n":1,"n":2}`},
		{"variables that are a list", "GET", "", "", "query={a}&variables=[]"},
		{"a body with GET", "GET", jsonType, `{"query":"{expensive}"}`, "query={a}"},
		{"no query in the URL", "GET", "", "", "x=1"},
		{"no query", "POST", jsonType, `{"operationName":"A"}`, ""},
		{"a stored query", "POST", jsonType, `{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"ab"}}}`, ""},
		{"a stored query beside one", "POST", jsonType, `{"query":"{a}","extensions":{"persistedQuery":{"sha256Hash":"ab"}}}`, ""},
		{"a stored query of another shape", "POST", jsonType, `{"query":"{a}","extensions":{"persistedQuery":"ab"}}`, ""},
		{"extensions of another shape", "POST", jsonType, `{"query":"{a}","extensions":[]}`, ""},
		{"a query that is no text", "POST", jsonType, `{"query":["{a}"]}`, ""},
		{"a blank query", "POST", jsonType, `{"query":""}`, ""},
		{"a name that is no text", "POST", jsonType, `{"query":"{a}","operationName":1}`, ""},
		{"variables as text", "POST", jsonType, `{"query":"{a}","variables":"{}"}`, ""},
		{"an empty batch", "POST", jsonType, `[]`, ""},
		{"a batch in a batch", "POST", jsonType, `[[{"query":"{a}"}]]`, ""},
		{"a batch with a null", "POST", jsonType, `[{"query":"{a}"},null]`, ""},
		{"no object", "POST", jsonType, `"{a}"`, ""},
		{"two objects", "POST", jsonType, `{"query":"{a}"}{"query":"{b}"}`, ""},
		{"broken", "POST", jsonType, `{"query":"{a}"`, ""},
		{"a byte order mark", "POST", jsonType, "\ufeff" + `{"query":"{a}"}`, ""},
		{"invalid UTF-8", "POST", jsonType, "{\"query\":\"{a(x:\\\"\xff\\\")}\"}", ""},
		{"nothing", "POST", jsonType, ``, ""},
		{"no type", "POST", "", `{"query":"{a}"}`, ""},
		{"a broken type", "POST", "application/json;;", `{"query":"{a}"}`, ""},
		{"another type", "POST", "text/plain", `{"query":"{a}"}`, ""},
		{"a form", "POST", "application/x-www-form-urlencoded", `query={a}`, ""},
		{"an upload", "POST", "multipart/form-data; boundary=x", `--x--`, ""},
		{"another charset", "POST", "application/json; charset=utf-16", `{"query":"{a}"}`, ""},
		{"another method", "PUT", jsonType, `{"query":"{a}"}`, ""},
		{"method in other letters", "post", jsonType, `{"query":"{a}"}`, ""},
	} {
		got, err := ParseRequest(c.method, c.contentType, []byte(c.body), c.query)
		if !errors.Is(err, ErrSyntax) || got != nil {
			t.Errorf("%s: %v, %v; want ErrSyntax", c.name, got, err)
		}
	}
}

func TestParseRequest_TakesAHashOfTheQueryItself(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("{a}"))
	for _, hash := range []string{hex.EncodeToString(sum[:]), strings.ToUpper(hex.EncodeToString(sum[:]))} {
		body := `{"query":"{a}","extensions":{"persistedQuery":{"version":1,"sha256Hash":"` + hash + `"}}}`
		if ops, err := ParseRequest("POST", jsonType, []byte(body), ""); err != nil || len(ops) != 1 {
			t.Errorf("%v, %v", ops, err)
		}
	}
	if _, err := ParseRequest("POST", jsonType, []byte(`{"query":"{a}","extensions":{"persistedQuery":null}}`), ""); err != nil {
		t.Error(err)
	}
}

func TestParseRequest_BoundsAreTold(t *testing.T) {
	t.Parallel()
	batch := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(`{"query":"{a}"},`, n), ",") + "]" }
	variables := func(v string) string { return `{"query":"{a}","variables":{"v":` + v + `}}` }
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("0,", n), ",") + "]" }
	for _, c := range []struct{ name, most, more, word string }{
		{"operations", batch(MaxBatch), batch(MaxBatch + 1), "operations"},
		{"values", variables(list(maxValues - 4)), variables(list(maxValues - 3)), "values"},
		{"levels", variables(strings.Repeat("[", maxNesting-2) + strings.Repeat("]", maxNesting-2)), variables(strings.Repeat("[", maxNesting-1) + strings.Repeat("]", maxNesting-1)), "deeper"},
		{"bytes", variables(`"` + strings.Repeat("x", MaxBodyBytes-len(variables(`""`))) + `"`), variables(`"` + strings.Repeat("x", MaxBodyBytes) + `"`), "bytes"},
	} {
		if _, err := ParseRequest("POST", jsonType, []byte(c.most), ""); err != nil {
			t.Errorf("%s, the most: %v", c.name, err)
		}
		if _, err := ParseRequest("POST", jsonType, []byte(c.more), ""); !errors.Is(err, ErrTooComplex) || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s, one more: %v", c.name, err)
		}
	}
	if _, err := ParseRequest("GET", "", nil, "query="+strings.Repeat("a", MaxBodyBytes)); !errors.Is(err, ErrTooComplex) {
		t.Errorf("a long URL: %v", err)
	}
}

func TestErrors_AreShortPrintableAndOfOneKind(t *testing.T) {
	t.Parallel()
	hostile := strings.Repeat("\u202e\x1b[31m<script>\r\n", 1000)
	for _, query := range []string{hostile, `{a(x:"` + hostile, "{...F} fragment F on X{" + hostile, `{a("` + strings.Repeat("x", 60_000)} {
		body, err := json.Marshal(map[string]any{"query": query})
		if err != nil {
			t.Fatal(err)
		}
		ops, err := ParseRequest("POST", jsonType, body, "")
		if err == nil {
			_, err = New(rules()).Cost(ops)
		}
		checkError(t, err)
	}
	for _, body := range []string{`{"query":"{a}","` + strings.Repeat("\u202e", 1000) + `":1}`, `{"query":"{a}","operationName":"` + strings.Repeat("x", 9000) + `"}`} {
		ops, err := ParseRequest("POST", jsonType, []byte(body), "")
		if err == nil {
			_, err = New(rules()).Cost(ops)
		}
		checkError(t, err)
	}
}

// checkError holds what is promised of every error.
func checkError(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Error("taken")
		return
	}
	kinds := 0
	for _, kind := range []error{ErrSyntax, ErrTooComplex, ErrOverMax} {
		if errors.Is(err, kind) {
			kinds++
		}
	}
	text := err.Error()
	if kinds != 1 || len(text) > 400 || strings.ContainsAny(text, "\r\n\x1b\u202e\x00") {
		t.Errorf("error of %d kinds and %d bytes: %.500q", kinds, len(text), text)
	}
}
