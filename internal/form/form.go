// Package form reads HTML forms and carries what was typed, and what was wrong
// with it, back to the page. It imports nothing of this module: views import it,
// and a view must never come near a domain entity.
package form

import (
	"errors"
	"net/http"
	"strings"
)

// Form is the input of one page: what was typed, and the problem beside each
// field. The zero value is an empty form; all methods work on a nil *Form.
type Form struct {
	Value   map[string]string // by field name, as typed
	Errors  map[string]string // by field name; shown beside the field
	Message string            // shown above the form
}

// New returns a form with the given values, for a page that is filled in
// before anybody typed.
func New(values map[string]string) *Form {
	f := &Form{Value: map[string]string{}, Errors: map[string]string{}}
	for k, v := range values {
		f.Value[k] = v
	}
	return f
}

// Parse reads the named fields of a request's body. Fields that are not named
// are not read, so a request cannot set what the page does not offer. A body
// that cannot be read leaves every field empty and a Message.
func Parse(r *http.Request, fields ...string) *Form {
	f := New(nil)
	if err := r.ParseForm(); err != nil {
		f.Message = "The form could not be read."
	}
	for _, name := range fields {
		f.Value[name] = strings.ToValidUTF8(r.PostForm.Get(name), "\uFFFD")
	}
	return f
}

// Query is Parse for the query string: filters and cursors.
func Query(r *http.Request, fields ...string) *Form {
	f := New(nil)
	q := r.URL.Query()
	for _, name := range fields {
		f.Value[name] = strings.ToValidUTF8(q.Get(name), "\uFFFD")
	}
	return f
}

// Get returns a field without the space around it.
func (f *Form) Get(name string) string { return strings.TrimSpace(f.Raw(name)) }

// Raw returns a field exactly as it was typed.
func (f *Form) Raw(name string) string {
	if f == nil {
		return ""
	}
	return f.Value[name]
}

// Error returns the problem of a field, "" when there is none.
func (f *Form) Error(name string) string {
	if f == nil {
		return ""
	}
	return f.Errors[name]
}

// Fail notes a problem of a field; the first one stays.
func (f *Form) Fail(name, message string) {
	if f.Errors == nil {
		f.Errors = map[string]string{}
	}
	if _, ok := f.Errors[name]; !ok {
		f.Errors[name] = message
	}
}

// OK reports whether nothing is wrong so far.
func (f *Form) OK() bool { return f == nil || len(f.Errors) == 0 && f.Message == "" }

// fieldError is what an error offers when it can say which fields are wrong.
type fieldError interface {
	error
	EachField(yield func(field, message string) bool)
	PublicMessage() string
}

// Take copies the field problems of err, and its public text as the form's
// Message, and reports whether there were any. The caller then renders the same
// page again with 422.
func (f *Form) Take(err error) bool {
	var fe fieldError
	if !errors.As(err, &fe) {
		return false
	}
	taken := false
	for name, message := range fe.EachField {
		f.Fail(name, message)
		taken = true
	}
	if taken {
		f.Message = fe.PublicMessage()
	}
	return taken
}
