package console_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/console"
)

// used notes when a key was used last, as the collector does.
func (e *env) used(t *testing.T, k console.KeyVersion, at time.Time) {
	t.Helper()
	stamp := at.Format(time.RFC3339Nano)
	e.sql(t, fmt.Sprintf(`INSERT INTO key_use (kid, tenant_id, first_used_at, last_used_at) VALUES ('%s', '%s', '%s', '%s')
		ON CONFLICT (kid) DO UPDATE SET first_used_at = least(key_use.first_used_at, excluded.first_used_at), last_used_at = excluded.last_used_at`,
		k.KID, k.TenantID, stamp, stamp))
	err := e.store.InTx(e.ctx, func(tx console.Tx) error { return tx.TouchKeys(e.ctx, []string{k.KID}, []time.Time{at}) })
	if err != nil {
		t.Fatal(err)
	}
}

// shown lists kids page by page, so that cursors are tried, too.
func (e *env) shown(t *testing.T, q console.KeyQuery, limit int) (out []string) {
	t.Helper()
	q.Page = console.Page{Limit: limit}
	for {
		items, next, err := e.keys.ListKeys(e.ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range items {
			out = append(out, k.KID)
		}
		if next == "" {
			return out
		}
		q.Page.After = next
	}
}

func TestKeys_ShowPicksOutWhatNeedsALook(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	made := map[string]console.KeyVersion{}
	issue := func(name string, in console.NewCredential) console.Issued {
		in.Name, in.Environment = name, "live"
		out, err := e.keys.IssueCredential(e.ctx, owner, ten.ID, in)
		if err != nil {
			t.Fatal(err)
		}
		made[name] = out.KeyVersion
		e.clock.add(time.Second)
		return out
	}
	year := 365 * dayLong
	issue("idle", console.NewCredential{})
	issue("idler", console.NewCredential{})
	issue("busy", console.NewCredential{})
	issue("ended", console.NewCredential{})
	start := e.clock.now()
	e.used(t, made["idle"], start.Add(10*dayLong))
	e.used(t, made["idler"], start.Add(5*dayLong))
	e.clock.add(120 * dayLong)
	now := e.clock.now()
	e.used(t, made["busy"], now.Add(-89*dayLong))
	if _, err := e.keys.Revoke(e.ctx, owner, made["ended"].KID, "leak: seen in a log"); err != nil {
		t.Fatal(err)
	}
	issue("fresh", console.NewCredential{})
	for name, days := range map[string]int{"soon": 10, "sooner": 5, "later": 31} {
		at := now.Add(time.Duration(days)*dayLong + time.Minute)
		issue(name, console.NewCredential{ExpiresAt: &at})
	}
	far := now.Add(year)
	turned := issue("turned", console.NewCredential{ExpiresAt: &far})
	quiet := issue("quiet", console.NewCredential{})
	for _, c := range []console.Issued{turned, quiet} {
		e.rotate(t, c.Credential.ID, dayLong)
	}
	e.used(t, made["turned"], e.clock.now().Add(time.Minute))
	kid := func(name string) string { return made[name].KID }
	for _, limit := range []int{1, 2, 200} {
		check := func(show console.KeyShow, want ...string) {
			t.Helper()
			if got := e.shown(t, console.KeyQuery{Show: show}, limit); !slices.Equal(got, want) {
				t.Errorf("%s by %d: %v, want %v (%v)", show, limit, got, want, made)
			}
		}
		check(console.ShowUnused, kid("idler"), kid("idle"))
		check(console.ShowExpiring, kid("sooner"), kid("soon"))
		check(console.ShowRetiringUsed, kid("turned"))
		check(console.ShowCompromised, kid("ended"))
		never := e.shown(t, console.KeyQuery{Show: console.ShowNever}, limit)
		if len(never) != 7 || !slices.Contains(never, kid("fresh")) || slices.Contains(never, kid("busy")) || slices.Contains(never, kid("ended")) {
			t.Errorf("never used by %d: %v", limit, never)
		}
		if got := e.shown(t, console.KeyQuery{Show: console.ShowUnused, TenantID: "ten_aaaaaaaaaaaaaaaa"}, limit); len(got) != 0 {
			t.Errorf("of another tenant: %v", got)
		}
		if got := e.shown(t, console.KeyQuery{Show: console.ShowExpiring, Q: "sooner"}, limit); !slices.Equal(got, []string{kid("sooner")}) {
			t.Errorf("searched: %v", got)
		}
	}
	_, _, err := e.keys.ListKeys(e.ctx, console.KeyQuery{Show: "odd"})
	wantCode(t, err, console.CodeInvalid)
}

// TestKeys_EachShowHasItsIndex: with the planner kept from reading whole tables
// where it can, no list reads key_versions from end to end, nor sorts it.
func TestKeys_EachShowHasItsIndex(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	conn, err := pgx.Connect(e.ctx, e.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(e.ctx) }()
	live := `state IN ('active', 'retiring', 'suspended')`
	for index, query := range map[string]string{
		"key_versions_idle":     `SELECT * FROM key_versions v WHERE v.` + live + ` AND v.idle_since < now() AND (v.idle_since, v.kid) > (now(), 'a') ORDER BY v.idle_since, v.kid LIMIT 51`,
		"key_versions_never":    `SELECT * FROM key_versions v WHERE v.` + live + ` AND NOT v.used AND (v.created_at, v.kid) < (now(), 'a') ORDER BY v.created_at DESC, v.kid DESC LIMIT 51`,
		"key_versions_expiring": `SELECT * FROM key_versions v WHERE v.state IN ('active', 'suspended') AND v.not_after IS NOT NULL AND v.not_after < now() ORDER BY v.not_after, v.kid LIMIT 51`,
		"key_versions_retiring": `SELECT * FROM key_versions v WHERE v.state = 'retiring' AND (v.not_after, v.kid) > (now(), 'a') ORDER BY v.not_after, v.kid LIMIT 51`,
		"key_versions_leaked":   `SELECT * FROM key_versions v WHERE v.leaked ORDER BY v.created_at DESC, v.kid DESC LIMIT 51`,
		"rotations_risk":        `SELECT * FROM rotations r WHERE r.state = 'overlap' AND r.ends_at < now() ORDER BY r.ends_at, r.id LIMIT 51`,
		"rotations_over":        `SELECT * FROM rotations r WHERE r.state <> 'overlap' ORDER BY r.ended_at DESC, r.id DESC LIMIT 51`,
	} {
		if _, err := conn.Exec(e.ctx, `SET enable_seqscan = off; SET enable_bitmapscan = off`); err != nil {
			t.Fatal(err)
		}
		plan, err := conn.Query(e.ctx, "EXPLAIN "+query)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(plan, pgx.RowTo[string])
		text := strings.Join(lines, "\n")
		if err != nil || !strings.Contains(text, index) || strings.Contains(text, "Sort") || strings.Contains(text, "Seq Scan") {
			t.Errorf("%s: %v\n%s", index, err, text)
		}
	}
}

func TestKeys_TouchMovesARowAtMostOnceADay(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	k := e.issue(t, e.tenant(t, "A").ID).KeyVersion
	if k := e.key(t, k.KID); k.Used || !k.IdleSince.Equal(k.CreatedAt) {
		t.Fatalf("fresh %+v", k)
	}
	at := e.clock.now()
	for _, c := range []struct{ used, want time.Duration }{
		{time.Minute, time.Minute}, {23 * time.Hour, time.Minute}, {25 * time.Hour, 25 * time.Hour}, {time.Hour, 25 * time.Hour},
	} {
		e.used(t, k, at.Add(c.used))
		if got := e.key(t, k.KID); !got.Used || !got.IdleSince.Equal(at.Add(c.want)) {
			t.Fatalf("used after %s: idle since %s", c.used, got.IdleSince.Sub(at))
		}
	}
}
