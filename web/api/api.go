// Package api is the console's JSON API under /api/v1: the same services and
// roles as the pages, for programs. It is described by an OpenAPI 3.1 document
// that is generated from the code, served, and committed as openapi.json.
//
// It imports console, policy and policy/apikey of this module; it must not
// import web, views, db or policy/feed.
package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/session"
)

// Prefix is where the API stands.
const Prefix = "/api/v1"

// Deps are what the API stands on. Every service is needed.
type Deps struct {
	Tenants     *console.Tenants
	Overrides   *console.Overrides
	Lockouts    *console.Lockouts
	Keys        *console.Keys
	Rotations   *console.Rotations
	Policies    *console.Policies
	Rollouts    *console.Rollouts
	Fleet       *console.Fleet
	Operators   *console.Operators
	Audit       *console.Audit
	Idempotency *console.Idempotency
	Bulk        *console.Bulk
	Exports     *console.Exports
	Ledger      *console.Ledger
	Quotas      *console.Quotas
	Leaks       *console.Leaks
	Alerts      *console.Alerts
	Explain     *console.Explainer
	Members     *console.Members
	Advisor     *console.Advisor
	Capacities  *console.Capacities
	Asks        *console.Asks
	PublicURL   string               // for links that are sent to people
	KeyUse      console.KeyUseSource // nil: nobody knows who uses keys
	// LeakToken lets scanners report leaks, and nothing else; "" lets none.
	LeakToken string
	Log       *slog.Logger
	Now       func() time.Time
}

// API answers the JSON API.
type API struct {
	Deps
	huma huma.API
	errs []error
	// large lets one large document in at a time: reading one costs memory.
	large chan struct{}
}

// New builds the API's handler. Requests come with their id in the response's
// X-Request-Id header. It fails when an operation has no permission.
func New(d Deps) (http.Handler, error) {
	a, err := build(d)
	if err != nil {
		return nil, err
	}
	return a.huma.Adapter(), nil
}

func build(d Deps) (*API, error) {
	a := &API{Deps: d, large: make(chan struct{}, 1)}
	r := chi.NewRouter()
	r.NotFound(a.plain(http.StatusNotFound, "There is no such address in the API."))
	r.MethodNotAllowed(a.plain(http.StatusMethodNotAllowed, "This address does not take this method."))
	a.huma = humachi.New(r, a.config())
	a.huma.UseMiddleware(a.authorize)
	a.registerTenants()
	a.registerOverrides()
	a.registerLockouts()
	a.registerExplain()
	a.registerKeys()
	a.registerRotations()
	a.registerLeaks()
	a.registerAlerts()
	a.registerPolicy()
	a.registerDrafts()
	a.registerReviewing()
	a.registerTrials()
	a.registerRollout()
	a.registerRules()
	a.registerState()
	a.registerMembers()
	a.registerBulk()
	a.registerExports()
	a.registerUsage()
	a.registerQuotas()
	a.registerAdvisor()
	a.describeProblems()
	r.Get(Prefix+"/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(OpenAPI())
	})
	return a, errors.Join(a.errs...)
}

//go:embed openapi.json
var openAPI []byte

// OpenAPI is the committed OpenAPI 3.1 document of the API, which a test keeps
// the same as what the code says.
func OpenAPI() []byte { return openAPI }

func (a *API) config() huma.Config {
	c := huma.DefaultConfig("Headgate", "v1")
	c.Info.Description = "Control plane of Headgate: tenants, keys, rotations, policy, gateways, audit."
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	c.CreateHooks = nil // no $schema members in answers
	c.RejectUnknownQueryParameters = true
	format := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: a.unmarshal}
	c.Formats = map[string]huma.Format{"application/json": format, "json": format}
	c.Transformers = []huma.Transformer{a.asProblem}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer",
		Description: "An operator's API token, hg_ops_…"}}
	c.Security = []map[string][]string{{"token": {}}}
	return c
}

// metaPermission is the key of an operation's permission.
const metaPermission = "permission"

// permOpen marks an operation that needs no token.
const permOpen console.Permission = "open"

// op describes one operation.
type op struct {
	id, method, path, summary string
	perm                      console.Permission
	status                    int   // of success; 200 when 0
	body                      int64 // largest body in bytes; 64 KiB when 0
	errors                    []int // besides 400, 401, 403, 422, 500, 503
}

// register adds an operation. Without a permission the API does not start.
func register[I, O any](a *API, o op, h func(context.Context, *I) (*O, error)) {
	if o.perm == "" {
		a.errs = append(a.errs, fmt.Errorf("api: %s %s has no permission", o.method, o.path))
		return
	}
	if o.body == 0 {
		o.body = 64 << 10
	}
	operation := huma.Operation{
		OperationID: o.id, Method: o.method, Path: Prefix + o.path, Summary: o.summary, DefaultStatus: o.status,
		Tags: []string{strings.Split(strings.TrimPrefix(o.path, "/"), "/")[0]}, MaxBodyBytes: o.body,
		// A deadline of huma's own would also cut short an answer that waits for gateways.
		BodyReadTimeout: -1,
		Errors:          append([]int{400, 401, 403, 422, 500, 503}, o.errors...),
		Metadata:        map[string]any{metaPermission: o.perm},
	}
	switch o.perm {
	case permOpen:
		operation.Security = []map[string][]string{}
	case permIntake:
		operation.Description = "Needs the permission " + string(console.PermManageKeys) + ". The token of the leak intake opens it, too, and nothing else."
	default:
		operation.Description = "Needs the permission " + string(o.perm) + "."
	}
	huma.Register(a.huma, operation, func(ctx context.Context, in *I) (*O, error) {
		out, err := h(ctx, in)
		if err != nil {
			return nil, a.problemOf(ctx, err)
		}
		return out, nil
	})
}

type ctxKey int

const (
	ctxActor ctxKey = iota
	ctxRequest
)

// actorOf is the operator whose token the request carries.
func actorOf(ctx context.Context) console.Actor {
	actor, _ := ctx.Value(ctxActor).(console.Actor)
	return actor
}

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(ctxRequest).(string)
	return id
}

// authorize turns the token into an operator with the role of now, and refuses
// what that role may not do.
func (a *API) authorize(c huma.Context, next func(huma.Context)) {
	r, w := humachi.Unwrap(c)
	id := w.Header().Get("X-Request-Id")
	c = huma.WithValue(c, ctxRequest, id)
	for name, values := range r.URL.Query() {
		if len(values) > 1 {
			a.refuse(c, newProblem(http.StatusBadRequest, fmt.Sprintf("the query parameter %q is given more than once", name)).as(string(console.CodeInvalid)))
			return
		}
	}
	perm, _ := c.Operation().Metadata[metaPermission].(console.Permission)
	if perm == permOpen {
		next(c)
		return
	}
	scheme, token, _ := strings.Cut(c.Header("Authorization"), " ")
	if perm == permIntake {
		if strings.EqualFold(scheme, "Bearer") && a.isIntake(strings.TrimSpace(token)) {
			next(c)
			return
		}
		perm = console.PermManageKeys
	}
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		a.refuse(c, &console.Error{Code: console.CodeUnauthenticated, Public: "An API token is needed: Authorization: Bearer hg_ops_…"})
		return
	}
	actor, err := a.Operators.Authenticate(c.Context(), strings.TrimSpace(token))
	if err != nil {
		a.refuse(c, err)
		return
	}
	actor.Via, actor.IP, actor.RequestID = console.ViaAPI, session.Peer(r), id
	c = huma.WithValue(c, ctxActor, actor)
	if !actor.Role.Can(perm) {
		a.refuse(c, &console.Error{Code: console.CodeForbidden, Public: "Your role does not allow this.",
			Cause: fmt.Errorf("role %s lacks %s", actor.Role, perm)})
		return
	}
	next(c)
}

// isIntake compares with the token of scanners in constant time.
func (a *API) isIntake(token string) bool {
	want, got := sha256.Sum256([]byte(a.LeakToken)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && a.LeakToken != ""
}

// refuse answers before an operation runs.
func (a *API) refuse(c huma.Context, err error) {
	p := a.problemOf(c.Context(), err)
	if p.Status == http.StatusUnauthorized {
		c.SetHeader("WWW-Authenticate", `Bearer realm="headgate"`)
	}
	_, w := humachi.Unwrap(c)
	p.write(w)
}

// plain answers requests that no operation takes.
func (a *API) plain(status int, detail string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		p := newProblem(status, detail)
		p.RequestID = w.Header().Get("X-Request-Id")
		p.write(w)
	}
}
