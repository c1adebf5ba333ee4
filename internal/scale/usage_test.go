package scale_test

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/csvout"
	"github.com/headgate/headgate/usage/ledger"
	"github.com/headgate/headgate/web/webtest"
)

// usagePages are the questions to the ledger, by name.
func (s *shop) usagePages() map[string]string {
	of, api := "/tenants/"+s.TenantID+"/usage", "/api/v1/usage"
	p := map[string]string{
		"usage": "/usage", "usage: compared": "/usage?range=7d&compare=1", "usage: one tenant of all": "/usage?range=30d&group=key&tenant=" + s.TenantID,
		"usage: completeness": "/usage/standing", "usage: periods": "/usage/periods", "usage: reconciliation": "/usage/reconciliation",
		"usage of a tenant: week": of + "?range=7d", "usage of a tenant: 90 days": of + "?range=90d", "usage of a tenant: in a zone": of + "?range=30d&zone=Asia/Kathmandu",
		"usage by API": api + "?range=24h", "usage by API: tenants": api + "?range=30d&group=tenant", "usage by API: one tenant": api + "?range=30d&group=route&tenant=" + s.TenantID,
		"events by API": api + "/events", "self-service: usage": "/t/usage", "self-service: 30 days": "/t/usage?range=30d", "self-service": "/t",
	}
	for _, group := range []string{"tenant", "plan", "route", "outcome", "gateway", "none"} {
		p["usage by "+group+": day"] = "/usage?group=" + group
		p["usage by "+group+": week"] = "/usage?range=7d&group=" + group
		p["usage by "+group+": 90 days"] = "/usage?range=90d&group=" + group
	}
	p["usage by key: day"] = "/usage?group=key"
	for _, group := range []string{"route", "key", "outcome", "none"} {
		p["usage of a tenant by "+group] = of + "?range=30d&group=" + group
	}
	return p
}

// join makes somebody of a tenant who reads its own pages.
func join(t *testing.T, w *webtest.World, tenantID string) []*http.Cookie {
	t.Helper()
	invited, err := w.Web.Members.Invite(t.Context(), w.Actor(console.RoleOwner), tenantID, console.NewInvitation{Email: "kim@example.com", Role: console.RoleTenantAdmin})
	if err != nil {
		t.Fatal(err)
	}
	c := w.Anonymous(t)
	c.Get("/t/invite/" + invited.Secret)
	if a := c.Post("/t/invite/"+invited.Secret, url.Values{"name": {"Kim"}, "password": {"a long enough password"}}); a.StatusCode != http.StatusSeeOther {
		t.Fatalf("join: %d %s", a.StatusCode, a.Text)
	}
	return c.Cookies
}

// sink takes a file in and keeps none of it.
type sink struct {
	header http.Header
	rows   int
	status int
	most   atomic.Int64 // of resident memory, while rows came
}

func (s *sink) Header() http.Header  { return s.header }
func (s *sink) WriteHeader(code int) { s.status = code }
func (s *sink) Write(p []byte) (int, error) {
	before := s.rows / 10_000
	s.rows += strings.Count(string(p), "\n")
	if s.rows/10_000 != before {
		s.most.Store(max(s.most.Load(), resident()))
	}
	return len(p), nil
}

// resident is the resident memory of this process in bytes.
func resident() int64 {
	raw, err := os.ReadFile("/proc/self/statm")
	var size, pages int64
	if err == nil {
		_, _ = fmt.Sscan(string(raw), &size, &pages)
	}
	return pages * int64(os.Getpagesize())
}

// exportAll writes all events to a file.
func (s *shop) exportAll(t *testing.T) {
	t.Helper()
	var events int
	if err := s.conn.QueryRow(t.Context(), "SELECT count(*) FROM usage_events").Scan(&events); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/api/v1/usage/events.csv", "/api/v1/usage/events.jsonl"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
		r.Host, r.RemoteAddr = strings.TrimPrefix(webtest.Origin, "https://"), "192.0.2.1:1234"
		r.Header.Set("Authorization", "Bearer "+s.Tokens[console.RoleOwner])
		debug.FreeOSMemory()
		out, before, begun := &sink{header: http.Header{}}, resident(), time.Now()
		s.Handler.ServeHTTP(out, r)
		want := events
		if strings.HasSuffix(target, ".csv") {
			want++
		}
		if out.rows != want {
			t.Errorf("%s: %d rows, want %d: status %d", target, out.rows, want, out.status)
		}
		grown := out.most.Load() - before
		t.Logf("%s: %d rows in %v, resident memory grew by %d KiB at most", target, out.rows, time.Since(begun).Round(time.Millisecond), grown>>10)
		if most := int64(32 << 20); grown > most {
			t.Errorf("%s: resident memory grew by %d bytes, at most %d", target, grown, most)
		}
	}
}

// formulas are texts that spreadsheets have been got to run, or nearly.
func formulas() []string {
	return []string{
		"=1+1", "=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(1,1)", "\t=1", "\r=1", "\n=1", " =1", "  \t =1", "＝1+1", "＋1", "－1", "＠SUM(1)",
		`=HYPERLINK("http://x","y")`, `=IMPORTXML("http://x","//a")`, "=1,2", `="a""b"`, "'=1", "''=1", "' =1", "-", "+", "=", "@", "\u00a0=1", "\u200b=1", "\ufeff=1",
		"\u2028=1", "+cmd|' /C notepad'!'A1'", `@"a",1`, "=a\r\nSet-Cookie: x",
	}
}

// runs reports whether a spreadsheet would take a cell for a formula.
func runs(cell string) bool {
	if cell == "" {
		return false
	}
	if strings.ContainsRune("\t\r\n", rune(cell[0])) {
		return true
	}
	cell = strings.TrimLeftFunc(cell, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.C, r) })
	return strings.IndexAny(cell, "=+-@＝＋－＠") == 0
}

// plain undoes what reading CSV does to line ends within a cell.
func plain(s string) string { return strings.ReplaceAll(csvout.Restore(s), "\r\n", "\n") }

// TestUsageFiles_A08_NoFormulaRunsAndEachTextComesBack has what outsiders choose, paths
// and ids of keys and names of tenants, in each CSV of the product.
func TestUsageFiles_A08_NoFormulaRunsAndEachTextComesBack(t *testing.T) {
	t.Parallel()
	w := webtest.New(t)
	conn, err := pgx.Connect(t.Context(), w.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	owner := w.Actor(console.RoleOwner)
	var events []ledger.Event
	var tenant string
	refused := map[string]bool{}
	second := w.Now().Unix() - 600
	for i, text := range formulas() {
		ten, err := w.Web.Tenants.Create(t.Context(), owner, console.NewTenant{Name: fmt.Sprintf("n%d", i), Plan: "free"})
		if err != nil {
			t.Fatal(err)
		}
		tenant = ten.ID
		if _, err := conn.Exec(t.Context(), "UPDATE tenants SET name = $2 WHERE id = $1", ten.ID, text); err != nil {
			refused[text] = true // the database takes no name with control characters or blanks around it
		}
		events = append(events, ledger.Event{Second: second, Tenant: ten.ID, KID: "k", Route: "r", Outcome: "admitted", Requests: 1, Cost: 1})
	}
	tried := map[string]bool{} // what gateways may call a route or a key
	for _, text := range formulas() {
		e := ledger.Event{Second: second, Tenant: tenant, KID: text, Route: text, Outcome: "admitted", Requests: 1, Cost: 1}
		if _, err := ledger.Encode(&ledger.Batch{Replica: "r", Boot: "b", First: 1, Events: []ledger.Event{e}, Through: second}); err != nil {
			continue
		}
		tried[text] = true
		events = append(events, e)
	}
	if len(formulas())-len(refused) < 20 || len(tried) < 20 {
		t.Fatalf("only %d names and %d routes are tried", len(formulas())-len(refused), len(tried))
	}
	w.Use(t, events...)
	operator, program, member := w.As(t, console.RoleOwner), w.API(t, console.RoleOwner), w.Anonymous(t)
	member.Cookies = join(t, w, tenant)
	for _, f := range []struct {
		from   *webtest.Client
		target string
		all    bool // whether each text is in it
	}{
		{operator, "/usage.csv?group=tenant&top=200", true}, {operator, "/usage.csv?group=route&top=200", true}, {operator, "/usage.csv?group=key&top=200", true},
		{operator, "/tenants.csv", true}, {operator, "/keys.csv", false},
		{program, "/api/v1/usage.csv?group=tenant&top=200", true}, {program, "/api/v1/usage.csv?group=route&top=200", true}, {program, "/api/v1/usage.csv?group=key&top=200", true},
		{program, "/api/v1/usage/events.csv", true}, {program, "/api/v1/usage/events.csv?tenant=" + tenant, true}, {program, "/api/v1/tenants.csv", true}, {program, "/api/v1/keys.csv", false},
		{member, "/t/usage.csv?range=24h&group=route", true}, {member, "/t/usage.csv?range=24h&group=key", true},
	} {
		a := f.from.Get(f.target)
		if a.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", f.target, a.StatusCode, a.Text)
			continue
		}
		if h := a.Header; h.Get("Content-Type") != "text/csv; charset=utf-8" || h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment; filename=\"headgate-") || len(h["Set-Cookie"]) > 0 {
			t.Errorf("%s: headers %v", f.target, h)
		}
		rows, err := csv.NewReader(strings.NewReader(a.Text)).ReadAll()
		if err != nil {
			t.Errorf("%s: %v", f.target, err)
		}
		seen := map[string]bool{}
		for _, row := range rows {
			for _, cell := range row {
				if runs(cell) {
					t.Errorf("%s: the cell %q runs", f.target, cell)
				}
				seen[plain(cell)] = true
			}
		}
		for _, text := range formulas() {
			named := strings.Contains(f.target, "tenants.csv") || strings.Contains(f.target, "group=tenant")
			if f.all && (named && !refused[text] || !named && tried[text]) && !seen[strings.ReplaceAll(text, "\r\n", "\n")] {
				t.Errorf("%s: %q is missing", f.target, text)
			}
		}
	}
}
