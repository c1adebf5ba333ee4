package gateway

import "net/http"

// Code names a refusal. The strings are part of the interface; docs/refusals.md
// has the table with what each means and what a caller should do.
type Code string

// Codes of refusals.
const (
	CodeQuotaExceeded       Code = "quota-exceeded"
	CodeTooManyInvalid      Code = "too-many-invalid-credentials" // never on the wire: the answer is bare
	CodeReducedCapacity     Code = "temporary-reduced-capacity"
	CodeIdentityUnavailable Code = "identity-unavailable"
	CodePlanUnknown         Code = "plan-unknown"
	CodeNoPolicy            Code = "no-policy"
	CodeMissingCredential   Code = "missing-credential"
	CodeMalformedCredential Code = "malformed-credential"
	CodeInvalidCredential   Code = "invalid-credential"
	CodeAmbiguousCredential Code = "ambiguous-credential"
	CodeTenantSuspended     Code = "tenant-suspended"
	CodeNoRoute             Code = "no-route"
	CodeAmbiguousPath       Code = "ambiguous-path"
	CodeCostExceedsBurst    Code = "cost-exceeds-burst"
	CodeBadCost             Code = "bad-cost"
	CodeQueryTooComplex     Code = "query-too-complex"
	CodeBadQuery            Code = "bad-query"
	CodeBadRequest          Code = "bad-request"
	CodeForbiddenCaller     Code = "forbidden-caller"
	CodeUpstreamUnavailable Code = "upstream-unavailable"
	CodeUpstreamTimeout     Code = "upstream-timeout"
)

const (
	typeRegistry = "https://iana.org/assignments/http-problem-types#"
	typeOurs     = "https://headgate.dev/problems/"
)

// refusal is what does not change about a code.
type refusal struct {
	status int
	title  string
	detail string
}

// refusalOf is the one table of refusals.
func refusalOf(code Code) refusal {
	switch code {
	case CodeQuotaExceeded:
		return refusal{http.StatusTooManyRequests, "Request cannot be satisfied as assigned quota has been exceeded", "The limits named in violated-policies cannot pay for this request."}
	case CodeTooManyInvalid:
		return refusal{http.StatusTooManyRequests, "Too many requests", ""}
	case CodeReducedCapacity:
		return refusal{http.StatusServiceUnavailable, "Request cannot be satisfied due to temporary server capacity constraints", "The limits of this route cannot be asked at the moment, and it admits nothing without them."}
	case CodeIdentityUnavailable:
		return refusal{http.StatusServiceUnavailable, "Identity unavailable", "The credential cannot be verified at the moment. It was not found invalid."}
	case CodePlanUnknown:
		return refusal{http.StatusServiceUnavailable, "Plan unknown", "The policy in force does not know the plan of this tenant."}
	case CodeNoPolicy:
		return refusal{http.StatusServiceUnavailable, "No policy", "This gateway has not received a policy yet."}
	case CodeMissingCredential:
		return refusal{http.StatusUnauthorized, "Missing credential", "The request carries no API key."}
	case CodeMalformedCredential:
		return refusal{http.StatusUnauthorized, "Malformed credential", "The API key is not well-formed. Check that it was copied whole."}
	case CodeInvalidCredential:
		return refusal{http.StatusUnauthorized, "Invalid credential", "The API key is not valid."}
	case CodeAmbiguousCredential:
		return refusal{http.StatusBadRequest, "Ambiguous credential", "The request carries two different API keys."}
	case CodeTenantSuspended:
		return refusal{http.StatusForbidden, "Tenant suspended", "The account that this API key belongs to is suspended."}
	case CodeNoRoute:
		return refusal{http.StatusNotFound, "No route", "No route of the policy matches this method, host and path."}
	default:
		return rarerRefusal(code)
	}
}

func rarerRefusal(code Code) refusal {
	switch code {
	case CodeAmbiguousPath:
		return refusal{http.StatusBadRequest, "Ambiguous path", "The path can be read in more than one way (encoded slashes, dot or empty segments, control characters). Send it in its plain form."}
	case CodeCostExceedsBurst:
		return refusal{http.StatusUnprocessableEntity, "Cost exceeds burst", "The cost of this request is above what its limits can ever hold. Waiting does not help."}
	case CodeBadCost:
		return refusal{http.StatusBadRequest, "Bad cost", "The cost is not a whole number of at least 1."}
	case CodeQueryTooComplex:
		return refusal{http.StatusUnprocessableEntity, "Query too complex", "The query is larger or costs more than this route admits. Waiting does not help; asking for less does."}
	case CodeBadQuery:
		return refusal{http.StatusBadRequest, "Bad query", "The query cannot be read, so that its cost cannot be told."}
	case CodeBadRequest:
		return refusal{http.StatusBadRequest, "Bad request", "The request cannot be read."}
	case CodeForbiddenCaller:
		return refusal{http.StatusForbidden, "Forbidden caller", "Decisions are given to callers on loopback, or with the decide token."}
	case CodeUpstreamTimeout:
		return refusal{http.StatusGatewayTimeout, "Upstream timeout", "The upstream did not answer in time."}
	default: // CodeUpstreamUnavailable
		return refusal{http.StatusBadGateway, "Upstream unavailable", "The upstream cannot be reached or broke off."}
	}
}

// problemType is the type URI: the registered one where there is one.
func problemType(code Code) string {
	switch code {
	case CodeQuotaExceeded, CodeReducedCapacity:
		return typeRegistry + string(code)
	default:
		return typeOurs + string(code)
	}
}
