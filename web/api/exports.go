package api

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/csvout"
	"github.com/headgate/headgate/policy"
)

type (
	tenantExportIn struct {
		Q      string `query:"q" maxLength:"200" doc:"Part of a name, or a whole id or external id"`
		Plan   string `query:"plan" maxLength:"63"`
		Status string `query:"status" enum:"active,suspended,deleted"`
	}
	keyExportIn struct {
		Q           string `query:"q" maxLength:"200" doc:"A kid, or part of a credential's or tenant's name"`
		Tenant      string `query:"tenant" maxLength:"64"`
		Environment string `query:"environment" enum:"live,test"`
		State       string `query:"state" enum:"active,retiring,suspended,expired,revoked"`
	}
)

func (a *API) registerExports() {
	register(a, op{id: "export-tenants", method: "GET", path: "/tenants.csv", summary: "Tenants as CSV, all of them", perm: console.PermExport}, a.exportTenants)
	register(a, op{id: "export-keys", method: "GET", path: "/keys.csv", summary: "Keys as CSV, all of them, without digests", perm: console.PermExport}, a.exportKeys)
	for _, path := range []string{"/tenants.csv", "/keys.csv"} {
		a.huma.OpenAPI().Paths[Prefix+path].Get.Responses["200"] = &huma.Response{Description: "OK", Content: map[string]*huma.MediaType{
			"text/csv": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}
	}
}

func (a *API) exportTenants(ctx context.Context, in *tenantExportIn) (*huma.StreamResponse, error) {
	filter := words("q", in.Q, "plan", in.Plan, "status", in.Status)
	return a.export(ctx, "tenants", filter, func(ctx context.Context, w io.Writer) error {
		return a.Exports.Tenants(ctx, w, console.TenantQuery{Q: in.Q, Plan: in.Plan, State: policy.TenantState(in.Status)})
	})
}

func (a *API) exportKeys(ctx context.Context, in *keyExportIn) (*huma.StreamResponse, error) {
	filter := words("tenant", in.Tenant, "environment", in.Environment, "state", in.State)
	return a.export(ctx, "keys", filter, func(ctx context.Context, w io.Writer) error {
		return a.Exports.Keys(ctx, w, console.KeyQuery{Q: in.Q, TenantID: in.Tenant, Environment: in.Environment, State: policy.KeyState(in.State)})
	})
}

// words tells a filter in words.
func words(pairs ...string) string {
	var out []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, pairs[i]+" "+pairs[i+1])
		}
	}
	return strings.Join(out, ", ")
}

// export streams a list. Nobody can be told any more when it fails after its
// beginning: the connection is cut, so that half a list is not taken for one.
func (a *API) export(ctx context.Context, what, filter string, write func(context.Context, io.Writer) error) (*huma.StreamResponse, error) {
	if err := a.Exports.Begin(ctx, actorOf(ctx), what, filter); err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		c.SetHeader("Content-Type", csvout.ContentType)
		c.SetHeader("Content-Disposition", csvout.FileName(what, a.Now()))
		c.SetHeader("X-Content-Type-Options", "nosniff")
		_, w := humachi.Unwrap(c)
		out := &patientWriter{c.BodyWriter(), http.NewResponseController(w), time.Now().Add(bulkLongest)}
		if err := write(ctx, out); err != nil {
			a.Log.WarnContext(ctx, "an export broke off", "request_id", requestID(ctx), "list", what, "error", err)
			panic(http.ErrAbortHandler)
		}
	}}, nil
}

// patientWriter is an answer that may take long to be read, as long as it is read.
type patientWriter struct {
	out   io.Writer
	ctl   *http.ResponseController
	until time.Time
}

// Write implements io.Writer.
func (w *patientWriter) Write(p []byte) (int, error) {
	next := time.Now().Add(bulkPause)
	if next.After(w.until) {
		next = w.until
	}
	_ = w.ctl.SetWriteDeadline(next) // a server without deadlines has none to move
	return w.out.Write(p)
}
