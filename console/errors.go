package console

import (
	"errors"
	"fmt"
)

// Code is the kind of an Error. Each door maps it to its own status once.
type Code string

// Codes.
const (
	CodeInvalid         Code = "invalid"
	CodeNotFound        Code = "not-found"
	CodeConflict        Code = "conflict"
	CodeForbidden       Code = "forbidden"
	CodeApproval        Code = "approval-required" // others have to approve first; Detail is a []Needed
	CodeUnavailable     Code = "unavailable"
	CodeUnauthenticated Code = "unauthenticated"
	CodeRateLimited     Code = "rate-limited"
	CodeInternal        Code = "internal"
)

// RetryLater is when to ask again after CodeUnavailable, in seconds, where the
// error names no time of its own.
const RetryLater = 2

// FieldError is one problem of one input field, in words for the user.
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Error is what services return. Public is the only text that a user sees;
// Cause goes to the log. Detail, when set, is a StaleBase, a policy.Report, a
// []Needed (CodeApproval), a []Confirmation, a []scenario.Result, or a Draft or
// Tenant as somebody else saved it meanwhile.
type Error struct {
	Code       Code
	Public     string
	Fields     []FieldError
	Cause      error
	Detail     any
	RetryAfter int // seconds, for CodeRateLimited; 0 when unknown
	// Unsure says that the change may have been made all the same: it was being
	// committed when the database went away.
	Unsure bool
}

// Error implements error with public text and cause, for logs.
func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Public
	for _, f := range e.Fields {
		s += fmt.Sprintf(" [%s: %s]", f.Field, f.Message)
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// CodeOf returns the code of the first *Error in err's chain: CodeInternal for
// any other error and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// asError finds the first *Error in err's chain.
func asError(err error, to **Error) bool {
	e, ok := errors.AsType[*Error](err)
	*to = e
	return ok
}

// IsNotFound reports whether err says that something does not exist.
func IsNotFound(err error) bool { return CodeOf(err) == CodeNotFound }

// HadNoEffect reports whether err says for certain that nothing was changed.
func HadNoEffect(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code != CodeInternal && !e.Unsure
}

func notFound(what string) error {
	return &Error{Code: CodeNotFound, Public: "There is no such " + what + "."}
}

func conflict(public string) error { return &Error{Code: CodeConflict, Public: public} }

func invalid(fields ...FieldError) error {
	return &Error{Code: CodeInvalid, Public: "Please correct the marked fields.", Fields: fields}
}

// problems collects field errors; err is nil when there are none.
type problems []FieldError

// add notes a problem. What it repeats of the input may be a key that was put
// into the wrong field, and messages are logged and kept: keys are masked.
func (p *problems) add(field, format string, args ...any) {
	*p = append(*p, FieldError{Field: field, Message: maskKeys(fmt.Sprintf(format, args...))})
}

func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return invalid(p...)
}

// PublicMessage is the text for the user.
func (e *Error) PublicMessage() string { return e.Public }

// EachField yields field and message of each field error until yield says stop.
func (e *Error) EachField(yield func(field, message string) bool) {
	for _, f := range e.Fields {
		if !yield(f.Field, f.Message) {
			return
		}
	}
}
