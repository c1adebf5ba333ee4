package web_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/web"
)

// actions are the acts that the console's services write to the audit trail, as
// their source names them.
func actions(t *testing.T) []string {
	t.Helper()
	action := regexp.MustCompile(`^(tenant|credential|key|rotation|draft|operator|session|token|member|ask|portal|threshold|alert|leak|bulk|policy|review|settings)\.[a-z-]+$`)
	entries, err := os.ReadDir("../console")
	if err != nil {
		t.Fatal(err)
	}
	found := []string{"policy." + string(console.KindPublish), "policy." + string(console.KindRollback)}
	for _, entry := range entries {
		if name := entry.Name(); !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), "../console/"+entry.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if s, err := strconv.Unquote(lit.Value); err == nil && action.MatchString(s) && s != console.EventOpened && s != console.EventResolved { // those are messages
					found = append(found, s)
				}
			}
			for _, verb := range overrideVerbs(n) {
				found = append(found, string(console.KindOverride)+"."+verb, string(console.KindBoost)+"."+verb)
			}
			return true
		})
	}
	return found
}

// overrideVerbs are what an event of overrides is made of: it is named by the
// kind and the verb that w.note or w.finish is given.
func overrideVerbs(n ast.Node) []string {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || method.Sel.Name != "note" && method.Sel.Name != "finish" {
		return nil
	}
	var verbs []string
	for _, arg := range call.Args {
		if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				verbs = append(verbs, s)
			}
		}
	}
	return verbs
}

func TestEvents_EveryActOfTheConsoleHasWords(t *testing.T) {
	t.Parallel()
	all := actions(t)
	if len(all) < 25 || !slices.Contains(all, "boost.expire") || !slices.Contains(all, "bulk.step") {
		t.Fatalf("only %v were found", all)
	}
	for _, action := range all {
		if text := web.EventText(console.AuditEvent{Action: action}); text == action || text == "" {
			t.Errorf("%s has no words", action)
		}
	}
	if got := web.EventText(console.AuditEvent{Action: "moon.landing"}); got != "moon.landing" {
		t.Errorf("an unknown act is shown as %q", got)
	}
}

func TestEvents_DetailIsWhatChanged(t *testing.T) {
	t.Parallel()
	obj := func(s string) json.RawMessage { return json.RawMessage(s) }
	for name, c := range map[string]struct {
		e    console.AuditEvent
		want string
	}{
		"made":         {console.AuditEvent{After: obj(`{"name":"A"}`)}, ""},
		"one field":    {console.AuditEvent{Before: obj(`{"name":"A","plan":"free"}`), After: obj(`{"name":"A","plan":"pro"}`)}, "plan free → pro"},
		"two fields":   {console.AuditEvent{Before: obj(`{"b":1,"a":true}`), After: obj(`{"b":2.5,"a":false}`)}, "a true → false, b 1 → 2.5"},
		"given":        {console.AuditEvent{Before: obj(`{"name":"A"}`), After: obj(`{"name":"A","external_id":"x"}`)}, "external id none → x"},
		"taken away":   {console.AuditEvent{Before: obj(`{"name":"A","external_id":"x"}`), After: obj(`{"name":"A"}`)}, "external id x → none"},
		"time":         {console.AuditEvent{Before: obj(`{"ends_at":"2026-11-30T12:00:00Z"}`), After: obj(`{"ends_at":"2026-12-01T14:30:59.5+02:00"}`)}, "ends at 2026-11-30 12:00 UTC → 2026-12-01 12:30 UTC"},
		"policy":       {console.AuditEvent{Changes: []policy.Change{{Text: "x is tighter"}, {Text: "y"}, {Text: "z"}}}, "x is tighter (and 2 more)"},
		"not objects":  {console.AuditEvent{Before: obj(`[1]`), After: obj(`"x"`)}, ""},
		"broken":       {console.AuditEvent{Before: obj(`{`), After: obj(`{"a":1}`)}, ""},
		"lists inside": {console.AuditEvent{Before: obj(`{"a":[1],"b":"x"}`), After: obj(`{"a":[2],"b":"x"}`)}, ""},
	} {
		if got := web.EventDetail(c.e); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestEvents_LinkToTheirObjectWhileItHasAPage(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]console.AuditEvent{
		"/tenants/ten_a":           {Action: "tenant.update", ObjectID: "ten_a"},
		"/tenants/ten_b/keys":      {Action: "credential.issue", ObjectID: "crd_a", TenantID: "ten_b"},
		"/keys/0123456789AB":       {Action: "key.revoke", ObjectID: "0123456789AB"},
		"/rotations/rot_a":         {Action: "rotation.end", ObjectID: "rot_a"},
		"/tenants/ten_c/overrides": {Action: "boost.expire", ObjectID: "ovr_a", TenantID: "ten_c"},
		"/tenants/ten_d/overrides": {Action: "override.set", ObjectID: "ovr_b", TenantID: "ten_d"},
		"/bulk/blk_a":              {Action: "bulk.step", ObjectID: "blk_a"},
		"/leaks":                   {Action: "leak.open", ObjectID: "lek_a"},
		"/policy/versions/12":      {Action: "policy.publish", ObjectID: "12"},
		"/policy/drafts/drf_a":     {Action: "draft.save", ObjectID: "drf_a"},
		"/tenants/..%2F..%2Fx%3F":  {Action: "tenant.update", ObjectID: "../../x?"},
	} {
		if got := web.EventURL(e); got != want {
			t.Errorf("%s: %q, want %q", e.Action, got, want)
		}
	}
	for _, e := range []console.AuditEvent{{Action: "draft.delete", ObjectID: "drf_a"}, {Action: "policy.publish", ObjectID: "twelve"},
		{Action: "operator.create", ObjectID: "opr_a"}, {Action: "session.end"}, {Action: "credential.issue"}, {}} {
		if got := web.EventURL(e); got != "" {
			t.Errorf("%+v leads to %q", e, got)
		}
	}
}

func TestRecover_PanicIsLoggedOnceAndNotTold(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	answer := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "sorry", http.StatusInternalServerError) }
	serve := func(p any) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		h := web.RecoverTo(slog.New(slog.NewJSONHandler(&log, nil)), answer, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if p != nil {
				panic(p)
			}
		}))
		h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/overview?q=secret", nil))
		return rec
	}
	if rec := serve(nil); rec.Code != http.StatusOK || log.Len() > 0 {
		t.Fatalf("without a panic: %d, log %s", rec.Code, log.String())
	}
	rec := serve(errors.New("password of the database"))
	if rec.Code != http.StatusInternalServerError || strings.Contains(rec.Body.String(), "password") {
		t.Errorf("%d %s", rec.Code, rec.Body.String())
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "events_test.go") || strings.Contains(log.String(), "q=secret") {
		t.Errorf("%d lines: %s", n, log.String())
	}
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("a handler that wants the connection closed: %v", err)
		}
	}()
	serve(http.ErrAbortHandler)
	t.Error("the panic that closes the connection was swallowed")
}

func TestOverview_ChangesAreNotHiddenByLooksAndSignIns(t *testing.T) {
	t.Parallel()
	w, tenant := world(t)
	for range 120 {
		if _, err := w.Web.Tenants.RecordView(t.Context(), w.Actor(console.RoleViewer), tenant.ID); err != nil {
			t.Fatal(err)
		}
	}
	c := w.As(t, console.RoleViewer)
	wants(t, c.Get("/overview"), http.StatusOK, "Tenant made", "Policy published")
	w.Advance(25 * time.Hour)
	wants(t, w.As(t, console.RoleViewer).Get("/overview"), http.StatusOK, "Nobody changed anything in the last 24 hours.")
}
