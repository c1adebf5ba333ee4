package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

// Problem is the body of every refusal (RFC 9457).
type Problem struct {
	Type      string `json:"type" doc:"URI of the kind of problem"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail" doc:"What is wrong, in words"`
	Code      string `json:"code" doc:"The kind of problem as a word"`
	RequestID string `json:"request_id" doc:"Found in the console's log"`

	Errors   []FieldProblem  `json:"errors,omitempty" doc:"What is wrong with each field of the request"`
	Problems []PolicyProblem `json:"problems,omitempty" doc:"What is wrong with the policy document; paths are relative to it"`
	Warnings []PolicyProblem `json:"warnings,omitempty"`

	BaseVersion *int64          `json:"base_version,omitempty" doc:"On a stale base: the version the request was based on"`
	HeadVersion *int64          `json:"head_version,omitempty" doc:"On a stale base: the version in force"`
	Changes     []policy.Change `json:"changes,omitempty" doc:"On a stale base: what was published since"`

	Needed        []console.Needed       `json:"needed,omitempty" doc:"On approval-required: the rules that are not met, and what met them"`
	Confirmations []console.Confirmation `json:"confirmations,omitempty" doc:"On confirmation-required: what the publisher has to say is meant"`
	TestResults   []scenario.Result      `json:"test_results,omitempty" doc:"On tests-failed: how each test went"`
	Draft         *Draft                 `json:"draft,omitempty" doc:"On stale-draft: the draft as it is stored now"`
	DraftETag     string                 `json:"draft_etag,omitempty" doc:"ETag of that draft"`
	Tenant        *Tenant                `json:"tenant,omitempty" doc:"On stale-tenant: the tenant as it is now"`

	Earlier json.RawMessage `json:"earlier,omitempty" doc:"On a repeated idempotency key: what the first request made, without secrets"`

	retryAfter int
}

// FieldProblem is what is wrong with one field of a request.
type FieldProblem struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// PolicyProblem is one problem of a policy document.
type PolicyProblem struct {
	Path    string `json:"path" doc:"routes[3].limits[0].rate; empty for the whole document"`
	Line    int    `json:"line,omitempty" doc:"Line of the source, when it was text"`
	Message string `json:"message"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	return h
}

func newProblem(status int, detail string) *Problem {
	code := strings.ToLower(strings.ReplaceAll(http.StatusText(status), " ", "-"))
	return &Problem{Type: "https://headgate.dev/problems/" + code, Title: http.StatusText(status), Status: status, Detail: detail, Code: code}
}

func (p *Problem) as(code string) *Problem {
	p.name(code)
	return p
}

// name says what kind of problem it is.
func (p *Problem) name(code string) { p.Code, p.Type = code, "https://headgate.dev/problems/"+code }

func (p *Problem) write(w http.ResponseWriter) {
	for k, v := range p.GetHeaders() {
		w.Header()[k] = v
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client went away
}

// StatusOf is the one table from error codes to status, for pages too.
func StatusOf(c console.Code) int {
	switch c {
	case console.CodeInvalid:
		return http.StatusUnprocessableEntity
	case console.CodeNotFound:
		return http.StatusNotFound
	case console.CodeConflict:
		return http.StatusConflict
	case console.CodeForbidden, console.CodeApproval:
		return http.StatusForbidden
	case console.CodeUnavailable:
		return http.StatusServiceUnavailable
	case console.CodeUnauthenticated:
		return http.StatusUnauthorized
	case console.CodeRateLimited:
		return http.StatusTooManyRequests
	default:
		return http.StatusInternalServerError
	}
}

// problemOf is the API's error edge: public text to the client, cause to the log.
func (a *API) problemOf(ctx context.Context, err error) *Problem {
	p, ok := errors.AsType[*Problem](err)
	if !ok {
		p = fromConsole(err)
	}
	p.RequestID = requestID(ctx)
	args := []any{"request_id", p.RequestID, "actor", actorOf(ctx).ID, "status", p.Status, "error", err.Error()}
	switch {
	case p.Code == string(console.CodeForbidden):
		a.Log.WarnContext(ctx, "authz_denied", args...)
	case p.Status >= 500:
		a.Log.ErrorContext(ctx, "api request failed", args...)
	default:
		a.Log.DebugContext(ctx, "api request refused", args...)
	}
	return p
}

func fromConsole(err error) *Problem {
	ce, ok := errors.AsType[*console.Error](err)
	if !ok || ce.Code == console.CodeInternal {
		return newProblem(http.StatusInternalServerError, "Something went wrong on our side.").as(string(console.CodeInternal))
	}
	p := newProblem(StatusOf(ce.Code), ce.Public).as(string(ce.Code))
	p.retryAfter = ce.RetryAfter
	if ce.Code == console.CodeUnavailable && p.retryAfter == 0 {
		p.retryAfter = console.RetryLater
	}
	if ofDocument := p.detail(ce); ofDocument {
		return p
	}
	for _, f := range ce.Fields {
		p.Errors = append(p.Errors, FieldProblem{Field: f.Field, Message: f.Message})
		p.Detail += " " + f.Field + ": " + f.Message
	}
	return p
}

// detail takes what an error says besides words. It reports whether that is
// what the fields say, too.
func (p *Problem) detail(ce *console.Error) bool {
	switch d := ce.Detail.(type) {
	case policy.Report:
		p.Problems, p.Warnings = PolicyProblems(d.Problems), PolicyProblems(d.Warnings)
		p.name(codeInvalidPolicy)
		if len(ce.Fields) > 0 && ce.Fields[0].Field == "tests" {
			p.name(codeInvalidTests)
		}
		return true
	case console.StaleBase:
		p.BaseVersion, p.HeadVersion, p.Changes = &d.Base, &d.Head, d.Changes
		p.name(codeStaleBase)
	case []console.Needed:
		p.Needed = d
	case []console.Confirmation:
		p.Confirmations = d
		p.name(codeConfirm)
	case []scenario.Result:
		p.TestResults = d
		p.name(codeTestsFailed)
	case console.Tenant:
		p.Tenant = new(tenantOf(d))
		p.Status, p.Title = http.StatusPreconditionFailed, http.StatusText(http.StatusPreconditionFailed)
		p.name(codeStaleTenant)
	case console.Draft:
		p.Draft, p.DraftETag = new(draftOf(d)), d.ETag
		p.Status, p.Title = http.StatusPreconditionFailed, http.StatusText(http.StatusPreconditionFailed)
		p.name(codeStaleDraft)
	}
	return false
}

// Codes of problems that say more than the kind of the error.
const (
	codeInvalidPolicy = "invalid-policy"
	codeInvalidTests  = "invalid-tests"
	codeTestsFailed   = "tests-failed"
	codeConfirm       = "confirmation-required"
	codeStaleBase     = "stale-base"
	codeStaleDraft    = "stale-draft"
	codeStaleTenant   = "stale-tenant"
)

// PolicyProblems are problems as the API tells them; never nil.
func PolicyProblems(in []policy.Problem) []PolicyProblem {
	out := make([]PolicyProblem, 0, len(in))
	for _, p := range in {
		out = append(out, PolicyProblem{Path: p.Path, Line: p.Line, Message: p.Message})
	}
	return out
}

// asProblem gives what the framework refuses by itself the shape of a Problem.
// The values it quotes are left out: they may be secrets.
func (a *API) asProblem(c huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := newProblem(m.Status, m.Detail)
	if m.Status == http.StatusUnprocessableEntity || m.Status == http.StatusBadRequest {
		p = p.as(string(console.CodeInvalid))
	}
	p.RequestID = requestID(c.Context())
	var parts []string
	for _, e := range m.Errors {
		f := fieldOf(e)
		p.Errors = append(p.Errors, f)
		parts = append(parts, f.Field+": "+f.Message)
	}
	if len(parts) > 0 {
		p.Detail = strings.Join(parts, "; ")
	}
	if m.Status >= 500 {
		a.Log.ErrorContext(c.Context(), "api request failed", "request_id", p.RequestID, "status", m.Status, "error", p.Detail)
		p.Detail, p.Errors = "Something went wrong on our side.", nil
	}
	return p, nil
}

// fieldOf says which field the framework minds, by the name it has in a
// request. What is missing is reported at the object that lacks it.
func fieldOf(e *huma.ErrorDetail) FieldProblem {
	field := e.Location
	if name, ok := strings.CutPrefix(e.Message, "expected required property "); ok {
		if name, ok = strings.CutSuffix(name, " to be present"); ok {
			return FieldProblem{Field: inRequest(field + "." + name), Message: "is required"}
		}
	}
	return FieldProblem{Field: inRequest(field), Message: strings.Replace(e.Message, "unexpected property", "is not a field here", 1)}
}

// inRequest is a location without the part of the request it stands in.
func inRequest(location string) string {
	for _, prefix := range []string{"body.", "query.", "path.", "header."} {
		if name, ok := strings.CutPrefix(location, prefix); ok {
			return name
		}
	}
	return location
}

// describeProblems puts the shape of Problem where the framework describes its own.
func (a *API) describeProblems() {
	schemas := a.huma.OpenAPI().Components.Schemas
	schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	all := schemas.Map()
	if s, ok := all["Problem"]; ok {
		all["ErrorModel"] = s
		delete(all, "ErrorDetail")
	}
}
