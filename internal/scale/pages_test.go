package scale_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/internal/scale"
	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/web/webtest"
)

const (
	mostQueries = 8
	mostBytes   = 60_000 // of a page, compressed
	mostRows    = 11_000 // that one scan of a table may look at: a count reads 10 001 that count
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	os.Exit(m.Run())
}

// quiet keeps the client's own remarks on a Redis that was killed out of the output.
type quiet struct{}

// Printf implements go-redis' logger.
func (quiet) Printf(context.Context, string, ...any) {}

// measured is the share of Full that this run measures, in percent; 0 when it is
// one of many tests and only looks at what must hold at any size.
func measured() int {
	n, err := strconv.Atoi(os.Getenv("HEADGATE_SCALE"))
	if err != nil {
		return 0
	}
	return n
}

// shop is a console over a seeded database.
type shop struct {
	*webtest.World
	scale.Known
	conn    *pgx.Conn
	cookies []*http.Cookie
	member  []*http.Cookie // somebody's of the known tenant
}

// newShop makes a console over a database, fills that, and signs an owner in. The
// console is there before the rows: its relay has nothing to send.
func newShop(t *testing.T, dsn string, size scale.Size) *shop {
	t.Helper()
	s := &shop{World: webtest.On(t, dsn, db.Traced(scale.Tracer{}))}
	conn, err := pgx.Connect(t.Context(), s.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	s.conn = conn
	begun := time.Now()
	if s.Known, err = scale.Seed(t.Context(), conn, size); err != nil {
		t.Fatal(err)
	}
	t.Logf("seeded %+v in %v", size, time.Since(begun).Round(time.Millisecond))
	s.cookies, s.member = s.As(t, console.RoleOwner).Cookies, join(t, s.World, s.TenantID)
	return s
}

// pages are lists, searches, filters and details, by name. Those of one name are
// the same question whatever the size.
func (s *shop) pages() map[string]string {
	p := map[string]string{
		"tenants": "/tenants", "tenants by 200": "/tenants?limit=200", "tenants by name": "/tenants?sort=name",
		"tenants: suspended": "/tenants?state=suspended", "tenants: deleted": "/tenants?state=deleted", "tenants: plan": "/tenants?plan=team",
		"tenants: suspended of a plan": "/tenants?state=suspended&plan=team",
		"tenants: one name":            "/tenants?q=" + s.RareWord, "tenants: two words": "/tenants?q=amber+systems", "tenants: common word": "/tenants?q=amber",
		"tenants: common word, suspended": "/tenants?q=amber&state=suspended", "tenants: no such name": "/tenants?q=nosuchname",
		"tenants: external id": "/tenants?q=cus_42", "tenants: own values": "/tenants?overrides=1",
		"keys": "/keys", "keys by 200": "/keys?limit=200", "keys: revoked": "/keys?state=revoked", "keys: suspended": "/keys?state=suspended",
		"keys: test": "/keys?environment=test", "keys: suspended and test": "/keys?state=suspended&environment=test", "keys: kid": "/keys?q=" + s.KID,
		"keys: one tenant's name": "/keys?q=" + s.RareWord, "keys: two words": "/keys?q=amber+systems", "keys: common word": "/keys?q=billing",
		"keys: common word, suspended": "/keys?q=billing&state=suspended", "keys: no such name": "/keys?q=nosuchname",
		"keys: unused": "/keys?show=unused", "keys: never used": "/keys?show=never", "keys: expiring": "/keys?show=expiring",
		"keys: retiring and used": "/keys?show=retiring-used", "keys: leaked": "/keys?show=compromised",
		"rotations": "/rotations", "rotation": "/rotations/" + s.RotationID,
		"audit": "/audit", "audit: family": "/audit?action=rotation", "audit: action": "/audit?action=rotation.cancel", "audit: actor": "/audit?actor=rare",
		"audit: common actor": "/audit?actor=cy", "audit: object": "/audit?object=rotation", "audit: tenant": "/audit?tenant=" + s.TenantID,
		"audit: no such actor": "/audit?actor=nobody", "audit: no such action": "/audit?action=nothing.done",
		"tenant": "/tenants/" + s.TenantID, "tenant's keys": "/tenants/" + s.TenantID + "/keys", "tenant's audit": "/tenants/" + s.TenantID + "/audit",
		"tenant's usage": "/tenants/" + s.TenantID + "/usage", "tenant's values": "/tenants/" + s.TenantID + "/overrides",
		"key": "/keys/" + s.KID, "overrides": "/overrides", "overview": "/overview",
	}
	maps.Copy(p, s.usagePages())
	return p
}

// visit is one answer of the console.
type visit struct {
	status     int
	body       []byte
	took       time.Duration
	statements []scale.Statement
}

func (s *shop) visit(t *testing.T, target string) visit {
	t.Helper()
	ctx, watched := scale.Watch(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	r.Host, r.RemoteAddr = strings.TrimPrefix(webtest.Origin, "https://"), "192.0.2.1:1234"
	cookies := s.cookies
	switch {
	case strings.HasPrefix(target, "/api/"):
		r.Header.Set("Authorization", "Bearer "+s.Tokens[console.RoleOwner])
		cookies = nil
	case target == "/t" || strings.HasPrefix(target, "/t/"):
		cookies = s.member
	}
	for _, c := range cookies {
		r.AddCookie(c)
	}
	rec := httptest.NewRecorder()
	begun := time.Now()
	s.Handler.ServeHTTP(rec, r)
	return visit{rec.Code, rec.Body.Bytes(), time.Since(begun), watched.All()}
}

func (v visit) compressed(t *testing.T) int {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(v.body); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Len()
}

// reading leaves out what only begins, ends or sets.
func reading(all []scale.Statement) (out []scale.Statement) {
	for _, st := range all {
		switch strings.ToUpper(strings.Fields(scale.Name(st) + " -")[0]) {
		case "BEGIN", "COMMIT", "ROLLBACK", "-", ";":
		default:
			out = append(out, st)
		}
	}
	return out
}

// TestScale_L06 fills one database and holds the console to it: first its pages,
// then its relay, which finds Redis empty.
func TestScale_L06(t *testing.T) {
	t.Parallel()
	size, rounds := scale.Full().Percent(2), 2 // 20 000 keys: enough for a walk to show
	if p := measured(); p > 0 {
		size, rounds = scale.Full().Percent(p), 100
	}
	dsn := testkit.Postgres(t)
	var known scale.Known
	if !t.Run("pages read little however much there is", func(t *testing.T) {
		large := newShop(t, dsn, size)
		known = large.Known
		large.readLittle(t)
		large.exportAll(t)
		if measured() > 0 {
			compare(t, newShop(t, testkit.Postgres(t), size.Percent(1)), large, rounds)
		}
	}) && known == (scale.Known{}) {
		t.FailNow() // nothing was seeded
	}
	t.Run("the relay", func(t *testing.T) {
		newWire(t, dsn, known).carry(t)
	})
}

// readLittle runs the statements of each page under EXPLAIN ANALYZE, with their
// own arguments.
func (s *shop) readLittle(t *testing.T) {
	t.Helper()
	pages := s.pages()
	names := slices.Sorted(maps.Keys(pages))
	for _, name := range names {
		v := s.visit(t, pages[name])
		if v.status != http.StatusOK {
			t.Errorf("%s (%s): status %d", name, pages[name], v.status)
			continue
		}
		statements := reading(v.statements)
		asked := statements
		if name == "overview" { // what comes up is read every ten seconds at most, for all who look
			asked = reading(s.visit(t, pages[name]).statements)
		}
		if len(asked) > mostQueries {
			t.Errorf("%s: %d queries, at most %d:%s", name, len(asked), mostQueries, listed(asked))
		}
		if n := v.compressed(t); n > mostBytes {
			t.Errorf("%s: %d bytes compressed, at most %d", name, n, mostBytes)
		}
		for _, st := range statements {
			scans, err := scale.Reads(t.Context(), s.conn, st)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, scan := range scans {
				if scan.Rows > mostRows && !addsUp(st) {
					t.Errorf("%s: %s: %v, at most %d", name, scale.Name(st), scan, mostRows)
				}
			}
		}
	}
}

// addsUp reports whether a statement adds up the sums of all tenants: which are the
// largest, and what plans come to. The order of very many is remembered, plans are not.
func addsUp(st scale.Statement) bool {
	return scale.Name(st) == "UsageTenantGroups" || scale.Name(st) == "UsageTenantSteps"
}

func listed(all []scale.Statement) string {
	var b strings.Builder
	for _, st := range all {
		fmt.Fprintf(&b, "\n\t%s", scale.Name(st))
	}
	return b.String()
}

// compare asks two consoles for the same pages in turn, and prints how long
// they took. Machines are noisy and p99 of a hundred is the second longest: a
// missed target is a mark in the table, not a failure.
func compare(t *testing.T, small, large *shop, rounds int) {
	t.Helper()
	one, all := small.pages(), large.pages()
	took := map[string]*[2][]time.Duration{}
	for round := range rounds + 2 {
		for name := range all {
			for i, v := range []visit{small.visit(t, one[name]), large.visit(t, all[name])} {
				if v.status != http.StatusOK {
					t.Fatalf("%s: status %d", name, v.status)
				}
				if round < 2 {
					continue // caches are cold
				}
				if took[name] == nil {
					took[name] = &[2][]time.Duration{}
				}
				took[name][i] = append(took[name][i], v.took)
			}
		}
	}
	t.Logf("| page | p50 at 1 %% | p50 at 100 %% | p99 at 1 %% | p99 at 100 %% | ratio of p99 | queries | KB gz |")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		a, b := took[name][0], took[name][1]
		ratio := float64(quantile(b, 99)) / float64(quantile(a, 99))
		mark := ""
		if ratio > 1.5 {
			mark = " !"
		}
		v := large.visit(t, all[name])
		t.Logf("| %s | %.1f | %.1f | %.1f | %.1f | %.2f%s | %d | %.1f |", name, ms(quantile(a, 50)), ms(quantile(b, 50)), ms(quantile(a, 99)), ms(quantile(b, 99)),
			ratio, mark, len(reading(v.statements)), float64(v.compressed(t))/1000)
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile is the smallest of all that percent of them do not exceed.
func quantile(all []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}
