package db_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/internal/testkit"
)

func TestSchema_BadStatesOfKeyUseAreRefused(t *testing.T) {
	t.Parallel()
	conn := fixtureConn(t)
	source := `INSERT INTO key_sources (kid, tenant_id, network, agent, first_seen, last_seen, requests, limited, refused) VALUES `
	for name, c := range map[string]struct{ sql, want string }{
		"a source of an unknown key":     {source + `('unknown00000','ten_aaaaaaaaaaaaaaaa','','',now(),now(),1,0,0)`, "23503"},
		"a source seen last before":      {source + `('active000000','ten_aaaaaaaaaaaaaaaa','','',now(),now()-interval '1 s',1,0,0)`, "23514"},
		"a source with a whole header":   {source + `('active000000','ten_aaaaaaaaaaaaaaaa','','` + hex64a + `',now(),now(),1,0,0)`, "23514"},
		"fewer than no requests":         {source + `('active000000','ten_aaaaaaaaaaaaaaaa','','',now(),now(),-1,0,0)`, "23514"},
		"a use without any time":         {`INSERT INTO key_use (kid, tenant_id) VALUES ('active000000','ten_aaaaaaaaaaaaaaaa')`, "23514"},
		"a last use before the first":    {`INSERT INTO key_use (kid, tenant_id, first_used_at, last_used_at) VALUES ('active000000','ten_aaaaaaaaaaaaaaaa',now(),now()-interval '1 s')`, "23514"},
		"a run without a number":         {`INSERT INTO key_use_replicas (replica, boot, seq, through, final, updated_at) VALUES ('a','b',0,now(),false,now())`, "23514"},
		"a stretch that ends before":     {`INSERT INTO key_use_replicas (replica, boot, seq, through, final, missing_from, missing_to, updated_at) VALUES ('a','b',1,now(),false,now(),now()-interval '1 s',now())`, "23514"},
		"a second place":                 {`INSERT INTO key_use_place (one) VALUES (false)`, "23514"},
		"the only place, a second time":  {`INSERT INTO key_use_place DEFAULT VALUES`, "23505"},
		"hours of an unknown key":        {`INSERT INTO key_use_hours (kid, hour, requests, limited, refused) VALUES ('unknown00000',now(),1,0,0)`, "23503"},
		"a source with a longer network": {source + `('active000000','ten_aaaaaaaaaaaaaaaa','` + hex64a + `','',now(),now(),1,0,0)`, "23514"},
	} {
		if got := refused(t, conn, c.sql); got != c.want {
			t.Errorf("%s: SQLSTATE %q, want %q", name, got, c.want)
		}
	}
}

// TestKeyUse_RowsComeBackAsTheyWereAddedUp, times in UTC, and none where there is none.
func TestKeyUse_RowsComeBackAsTheyWereAddedUp(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), fixture); err != nil {
		t.Fatal(err)
	}
	store, err := db.Open(t.Context(), dsn, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	at := func(s int) *time.Time {
		v := time.Date(2026, 11, 30, 12, 0, s, 0, time.UTC)
		return &v
	}
	source := console.KeySource{KID: "active000000", Network: "192.0.2.0/24", Agent: "curl/8", FirstSeen: *at(1), LastSeen: *at(5), UsedAt: at(5), Requests: 3, Limited: 1}
	later := source
	later.FirstSeen, later.LastSeen, later.UsedAt, later.RefusedAt, later.Refused = *at(20), *at(20), nil, at(20), 3
	err = store.InTx(t.Context(), func(tx console.Tx) error {
		for _, s := range []console.KeySource{source, later} {
			if err := tx.AddKeySources(t.Context(), []console.KeySource{s}); err != nil {
				return err
			}
		}
		uses := []console.KeyUse{{KID: "active000000", RefusedAt: at(3), RefusedNetwork: "n"}, {KID: "unknown00000", RefusedAt: at(3)}}
		if err := tx.AddKeyUses(t.Context(), uses); err != nil {
			return err
		}
		return tx.AddKeyUses(t.Context(), []console.KeyUse{{KID: "active000000", FirstUsedAt: at(1), LastUsedAt: at(5), LastAgent: "curl/8", RefusedAt: at(2), RefusedNetwork: "older"}})
	})
	if err != nil {
		t.Fatal(err)
	}
	err = store.Read(t.Context(), func(tx console.Tx) error {
		sources, err := tx.KeySources(t.Context(), "active000000", *at(0), 10)
		if err != nil {
			return err
		}
		if s := sources[0]; len(sources) != 1 || s.Requests != 6 || s.Limited != 2 || s.Refused != 3 || !s.FirstSeen.Equal(*at(1)) || !s.LastSeen.Equal(*at(20)) ||
			!s.UsedAt.Equal(*at(5)) || !s.RefusedAt.Equal(*at(20)) || s.LongestGap != 15*time.Second || s.LastSeen.Location() != time.UTC {
			t.Errorf("sources are %+v", sources)
		}
		uses, err := tx.KeyUses(t.Context(), []string{"active000000", "unknown00000", "revoked00000"}, *at(0))
		if err != nil {
			return err
		}
		if u := uses[0]; len(uses) != 1 || !u.FirstUsedAt.Equal(*at(1)) || !u.LastUsedAt.Equal(*at(5)) || u.LastAgent != "curl/8" || !u.RefusedAt.Equal(*at(3)) || u.RefusedNetwork != "n" || u.Requests24h != 0 {
			t.Errorf("uses are %+v", uses)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
