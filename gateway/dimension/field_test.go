package dimension

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"
)

// found is what a field is expected to be: "?" unreadable, "-" missing, or its value.
func found(value string, state State) string {
	switch state {
	case Missing:
		return "-"
	case Unreadable:
		return "?"
	default:
		return value
	}
}

func TestField_ReadsJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, name, want string }{
		{`{"username":"admin"}`, "username", "admin"},
		{` {"a":1,"username":" Admin "} `, "username", "admin"},
		{`{"\u0075sername":"\u0061dmin"}`, "username", "admin"},
		{`{"username":5}`, "username", "5"},
		{`{"username":"5"}`, "username", "5"},
		{`{"username":5.0}`, "username", "5"},
		{`{"username":50e-1}`, "username", "5"},
		{`{"username":5.00000000000000000001}`, "username", "5"},
		{`{"username":-0}`, "username", "0"},
		{`{"username":-7}`, "username", "-7"},
		{`{"username":1.50}`, "username", "1.5"},
		{`{"username":123456789012345}`, "username", "123456789012345"},
		{`{"username":9007199254740993}`, "username", "9007199254740992"},
		{`{"username":1e21}`, "username", "1000000000000000000000"},
		{`{"username":1e999}`, "username", "1e999"},
		{`{"username":true}`, "username", "true"},
		{`{"username":null}`, "username", "-"},
		{`{"username":""}`, "username", "-"},
		{`{"username":"  "}`, "username", "-"},
		{`{"username":"\u200b"}`, "username", "-"},
		{`{"user":"admin"}`, "username", "-"},
		{`{}`, "username", "-"},
		{`[]`, "username", "-"},
		{`["username","admin"]`, "username", "-"},
		{`[{"username":"admin"}]`, "username", "-"},
		{`"username"`, "username", "-"},
		{`{"a":{"username":"admin"}}`, "username", "-"},
		{`{"USERNAME":"admin"}`, "username", "admin"},
		{`{"u\u017fername":"admin"}`, "username", "admin"},
		{`{"username":"admin","username":"x"}`, "username", "?"},
		{`{"username":"admin","username":"admin"}`, "username", "?"},
		{`{"username":"admin","Username":"x"}`, "username", "?"},
		{`{"username":"x","\u0075sername":"admin"}`, "username", "?"},
		{`{"username":null,"username":"x"}`, "username", "?"},
		{`{"username":["admin"]}`, "username", "?"},
		{`{"username":{"a":"admin"}}`, "username", "?"},
		{`{"username":["admin"],"username":"x"}`, "username", "?"},
		{`{"username":"\ud800"}`, "username", "?"},
		{`{"username":"admin"} {}`, "username", "?"},
		{`{"username":"admin"`, "username", "?"},
		{`{'username':'admin'}`, "username", "?"},
		{"\ufeff" + `{"username":"admin"}`, "username", "?"},
		{"{\"username\":\"\xff\"}", "username", "?"},
		{`{"other":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `,"username":"a"}`, "username", "?"},
		{``, "username", "-"},
		{`{"user":{"name":"admin"}}`, "user.name", "admin"},
		{`{"User":{"Name":"admin"}}`, "user.name", "admin"},
		{`{"user":{"name":"admin"},"user":{}}`, "user.name", "?"},
		{`{"user":{"name":"admin"},"USER":1}`, "user.name", "?"},
		{`{"user":{"name":"admin","name":"b"}}`, "user.name", "?"},
		{`{"user":"admin"}`, "user.name", "-"},
		{`{"user":[{"name":"admin"}]}`, "user.name", "-"},
		{`{"user":{"name":{"a":1}}}`, "user.name", "?"},
	} {
		if got := found(Field(jsonType, []byte(c.body), true, c.name)); got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.name, c.body, got, c.want)
		}
	}
}

func TestField_ReadsForms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, name, want string }{
		{`username=admin`, "username", "admin"},
		{`a=1&username=Admin+&b=2`, "username", "admin"},
		{`user%6eame=%61dmin`, "username", "admin"},
		{`username=5`, "username", "5"},
		{`username=a%26b`, "username", "a&b"},
		{`username=a=b`, "username", "a=b"},
		{`username`, "username", "-"},
		{`username=`, "username", "-"},
		{`username=+++`, "username", "-"},
		{`a=b`, "username", "-"},
		{``, "username", "-"},
		{`&&&`, "username", "-"},
		{`Username=admin`, "username", "admin"},
		{`+username=admin`, "username", "admin"},
		{`username%00x=admin`, "username", "admin"},
		{`username=admin&username=x`, "username", "?"},
		{`username=admin&USERNAME=x`, "username", "?"},
		{`username=&username=x`, "username", "?"},
		{`username=x&user%6eame=admin`, "username", "?"},
		{`username[]=admin`, "username", "?"},
		{`username[0]=admin`, "username", "?"},
		{`username%5B%5D=admin`, "username", "?"},
		{`username=x&username[]=admin`, "username", "?"},
		{`username.a=admin`, "username", "?"},
		{`usernames=admin`, "username", "-"},
		{`user_agent=x&user=admin`, "user", "admin"},
		{`a=1;username=admin`, "username", "?"},
		{`a=1;b=2&username=admin`, "username", "?"},
		{`a=1;b=2`, "username", "-"},
		{`username=%zz`, "username", "?"},
		{`%zz=1&username=admin`, "username", "?"},
		{`username=%ff`, "username", "?"},
		{"username=\xff", "username", "?"},
		{`user[name]=admin`, "user.name", "admin"},
		{`user.name=admin`, "user.name", "admin"},
		{`user_name=admin`, "user.name", "admin"},
		{`user.name=admin`, "user_name", "admin"},
		{`user[name]=admin&user_name=x`, "user.name", "?"},
		{`user[name][]=admin`, "user.name", "?"},
	} {
		if got := found(Field(formType, []byte(c.body), true, c.name)); got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.name, c.body, got, c.want)
		}
	}
}

func TestField_WhatAnUpstreamMayReadOtherwiseIsUnreadable(t *testing.T) {
	t.Parallel()
	const body = `{"username":"admin"}`
	for contentType, want := range map[string]string{
		jsonType: "admin", "application/json; charset=utf-8": "admin", "Application/JSON;charset=UTF-8": "admin",
		"application/vnd.api+json": "admin", "application/json; charset=us-ascii": "admin",
		"": "?", "text/plain": "?", "multipart/form-data; boundary=x": "?", "application/json; charset=utf-16": "?",
		"application/json; charset": "?", "application/json, text/plain": "?", "json": "?", "application/xml": "?",
	} {
		if got := found(Field(contentType, []byte(body), true, "username")); got != want {
			t.Errorf("%q: %q, want %q", contentType, got, want)
		}
	}
	if got := found(Field(jsonType, []byte(body), false, "username")); got != "?" {
		t.Errorf("a body that goes on: %q, want it unreadable", got)
	}
	if got := found(Field("", nil, true, "username")); got != "-" {
		t.Errorf("no body: %q, want it missing", got)
	}
}

func TestRequestField_AValueInTheURLIsNoWayAround(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"": "admin", "a=b": "admin", "username=x": "?", "USERNAME=x": "?", "username[]=x": "?", "user%6eame=": "?", "a=1;username=x": "?", "%zz": "?",
	} {
		if got := found(RequestField(query, jsonType, []byte(`{"username":"admin"}`), true, "username")); got != want {
			t.Errorf("?%s: %q, want %q", query, got, want)
		}
	}
	if got := found(RequestField("username=x", "", nil, true, "username")); got != "?" {
		t.Errorf("only in the URL: %q, want it unreadable", got)
	}
}

func TestField_A14_LongValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, value string
		want        State
	}{
		{"ASCII", strings.Repeat("A", 60_000), Present},
		{"the longest with accents", strings.Repeat("é", maxPlain/2), Present},
		{"longer with accents", strings.Repeat("é", maxPlain/2+1), Unreadable},
		{"marks without end", "a" + strings.Repeat("\u0301", 20_000), Unreadable},
	} {
		value, state := Field(jsonType, []byte(`{"username":"`+c.value+`"}`), true, "username")
		if state != c.want || (state == Present && value != Fold(c.value)) {
			t.Errorf("%s: state %d, want %d; value %.20q", c.name, state, c.want, value)
		}
	}
}

func TestField_AFormIsLookedAtWithinBounds(t *testing.T) {
	t.Parallel()
	most := strings.Repeat("a=1&", maxPairs-1) + "username=x"
	if got := found(Field(formType, []byte(most), true, "username")); got != "x" {
		t.Errorf("the most: %q", got)
	}
	if got := found(Field(formType, []byte("b=1&"+most), true, "username")); got != "?" {
		t.Errorf("one more: %q, want it unreadable", got)
	}
}

// TestField_ASecondValueNeverHidesTheFirst writes objects and forms that hold the
// field twice, among others, in any order.
func TestField_ASecondValueNeverHidesTheFirst(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := append(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "x.y", "user", "user_name"}), 0, 4).Draw(t, "others"),
			rapid.SampledFrom([]string{"username", "Username", "USERNAME"}).Draw(t, "first"),
			rapid.SampledFrom([]string{"username", "userName"}).Draw(t, "second"))
		names = rapid.Permutation(names).Draw(t, "order")
		var object, form []string
		for _, n := range names {
			value := rapid.SampledFrom([]string{"admin", "x", ""}).Draw(t, "value")
			object = append(object, quoted(n)+":"+quoted(value))
			form = append(form, url.QueryEscape(n)+"="+url.QueryEscape(value))
		}
		if got := found(Field(jsonType, []byte("{"+strings.Join(object, ",")+"}"), true, "username")); got != "?" {
			t.Fatalf("%v: %q", object, got)
		}
		if got := found(Field(formType, []byte(strings.Join(form, "&")), true, "username")); got != "?" {
			t.Fatalf("%v: %q", form, got)
		}
	})
}

// TestField_JSONAndFormsAgree: however a value is sent, it has one bucket.
func TestField_JSONAndFormsAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.String().Draw(t, "value")
		inJSON := found(Field(jsonType, []byte(`{"x":1,"username":`+quoted(value)+`}`), true, "username"))
		inForm := found(Field(formType, []byte("x=1&username="+url.QueryEscape(value)), true, "username"))
		if inJSON != inForm {
			t.Fatalf("%+q: %+q in JSON, %+q in a form", value, inJSON, inForm)
		}
	})
}

func TestHeader_R078_CaseBlankAndSeveralLines(t *testing.T) {
	t.Parallel()
	for want, lines := range map[string][]string{"-": nil, "pro": {" pro\t"}, "?": {"pro", "free"}, "Pro": {"Pro"}, "\u00e9": {"e\u0301"}} {
		h := http.Header{}
		for _, l := range lines {
			h.Add("x-PLAN", l)
		}
		for _, name := range []string{"X-Plan", "x-plan", "X-PLAN"} {
			if got := found(Header(h, name)); got != want {
				t.Errorf("%q by %s: %q, want %q", lines, name, got, want)
			}
		}
	}
	for _, blank := range []string{"", " ", "\t"} {
		if got := found(Header(http.Header{"X-Plan": {blank}}, "X-Plan")); got != "-" {
			t.Errorf("%q: %q, want it missing", blank, got)
		}
	}
	if got := found(Header(http.Header{"X-Plan": {"", "pro"}}, "X-Plan")); got != "?" {
		t.Errorf("a blank line before: %q", got)
	}
}

func TestContentType_OnlyOfBodiesThatCanBeRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		h    http.Header
		want string
	}{
		{http.Header{}, ""},
		{http.Header{"Content-Type": {jsonType}}, jsonType},
		{http.Header{"Content-Type": {jsonType, "text/plain"}}, ""},
		{http.Header{"Content-Type": {jsonType}, "Content-Encoding": {"gzip"}}, ""},
		{http.Header{"Content-Type": {jsonType}, "Content-Encoding": {"identity"}}, jsonType},
		{http.Header{"Content-Type": {jsonType}, "Content-Encoding": {"identity, gzip"}}, ""},
		{http.Header{"Content-Type": {jsonType}, "Content-Encoding": {"identity", "br"}}, ""},
		{http.Header{"Content-Type": {jsonType}, "Content-Encoding": {" "}}, jsonType},
	} {
		if got := ContentType(c.h); got != c.want {
			t.Errorf("%v: %q, want %q", c.h, got, c.want)
		}
	}
}

func FuzzField(f *testing.F) {
	f.Add(jsonType, []byte(`{"username":"admin","a":{"b":1}}`), true, "username")
	f.Add(formType, []byte(`user[name]=admin&b=%20`), true, "user.name")
	f.Add("text/plain", []byte(`x`), false, "")
	f.Fuzz(func(t *testing.T, contentType string, body []byte, whole bool, name string) {
		value, state := Field(contentType, body, whole, name)
		switch {
		case (state == Present) != (value != ""):
			t.Errorf("state %d with value %q", state, value)
		case state == Present && Fold(value) != value:
			t.Errorf("%q is not folded", value)
		case !whole && state != Unreadable:
			t.Errorf("a body that goes on has state %d", state)
		}
		again, same := Field(contentType, body, whole, name)
		if again != value || same != state {
			t.Errorf("read twice: %q %d and %q %d", value, state, again, same)
		}
	})
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}
