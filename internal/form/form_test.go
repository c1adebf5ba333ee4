package form_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/form"
)

func post(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/x?name=query", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func TestParse_ReadsOnlyNamedFieldsOfTheBody(t *testing.T) {
	t.Parallel()
	f := form.Parse(post("name=+Acme+&role=owner"), "name")
	if got := f.Get("name"); got != "Acme" {
		t.Errorf("Get = %q, want the trimmed body value", got)
	}
	if got := f.Raw("name"); got != " Acme " {
		t.Errorf("Raw = %q, want it as typed", got)
	}
	if _, ok := f.Value["role"]; ok {
		t.Error("a field that was not named was read")
	}
}

func TestParse_QueryStringIsNotForm(t *testing.T) {
	t.Parallel()
	if got := form.Parse(post(""), "name").Get("name"); got != "" {
		t.Errorf("a query value reached the form: %q", got)
	}
	if got := form.Query(post(""), "name").Get("name"); got != "query" {
		t.Errorf("Query = %q", got)
	}
}

func TestParse_BrokenBodyIsAMessage(t *testing.T) {
	t.Parallel()
	f := form.Parse(post("name=%zz"), "name")
	if f.OK() || f.Message == "" {
		t.Error("a body that cannot be read passed as fine")
	}
}

func TestParse_InvalidUTF8BecomesReplacement(t *testing.T) {
	t.Parallel()
	if got := form.Parse(post("name=%ff"), "name").Get("name"); got != "\uFFFD" {
		t.Errorf("got %q", got)
	}
}

type fieldErr map[string]string

func (e fieldErr) Error() string         { return "cause that nobody may see" }
func (e fieldErr) PublicMessage() string { return "Not saved." }
func (e fieldErr) EachField(yield func(string, string) bool) {
	for k, v := range e {
		if !yield(k, v) {
			return
		}
	}
}

func TestTake_CopiesFieldsOfWrappedErrorAndKeepsInput(t *testing.T) {
	t.Parallel()
	f := form.Parse(post("name=x"), "name")
	if !f.Take(fmt.Errorf("create: %w", fieldErr{"name": "is too short"})) {
		t.Fatal("Take saw no field problem")
	}
	if f.Error("name") != "is too short" || f.Get("name") != "x" || f.Message != "Not saved." {
		t.Errorf("form = %+v", f)
	}
}

func TestTake_LeavesOtherErrorsToTheErrorEdge(t *testing.T) {
	t.Parallel()
	f := form.New(nil)
	for _, err := range []error{nil, errors.New("boom"), fieldErr{}} {
		if f.Take(err) {
			t.Errorf("Take(%v) = true", err)
		}
	}
	if !f.OK() {
		t.Error("the form was changed")
	}
}

func TestForm_NilIsEmpty(t *testing.T) {
	t.Parallel()
	var f *form.Form
	if f.Get("x") != "" || f.Error("x") != "" || !f.OK() {
		t.Error("a nil form is not empty")
	}
}
