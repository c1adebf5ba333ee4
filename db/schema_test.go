package db_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headgate/headgate/internal/testkit"
)

// fixture is one tenant with a credential, two ended and one active version,
// a completed rotation, a version of the policy and an audit row.
var fixture = `
INSERT INTO tenants (id, name, plan, time_zone, state, seq, created_at, updated_at) VALUES
 ('ten_aaaaaaaaaaaaaaaa','A','free','UTC','active',1,now(),now()), ('ten_dddddddddddddddd','D','free','UTC','deleted',2,now(),now());
INSERT INTO credentials (id, tenant_id, name, environment, created_at) VALUES ('crd_aaaaaaaaaaaaaaaa','ten_aaaaaaaaaaaaaaaa','main','live',now());
INSERT INTO key_versions (kid, credential_id, tenant_id, digest, state, seq, created_at, activated_at, ended_at, revoked_at, revoke_reason) VALUES
 ('expired00000','crd_aaaaaaaaaaaaaaaa','ten_aaaaaaaaaaaaaaaa','sha256:` + hex64a + `','expired',2,now(),now(),now(),NULL,NULL),
 ('revoked00000','crd_aaaaaaaaaaaaaaaa','ten_aaaaaaaaaaaaaaaa','sha256:` + hex64b + `','revoked',2,now(),now(),now(),now(),'leak'),
 ('active000000','crd_aaaaaaaaaaaaaaaa','ten_aaaaaaaaaaaaaaaa','sha256:` + hex64c + `','active',1,now(),now(),NULL,NULL,NULL);
INSERT INTO rotations (id, credential_id, tenant_id, old_kid, new_kid, state, reason, overlap_seconds, started_at, ends_at, ended_at) VALUES
 ('rot_aaaaaaaaaaaaaaaa','crd_aaaaaaaaaaaaaaaa','ten_aaaaaaaaaaaaaaaa','expired00000','active000000','completed','',60,now(),now(),now());
INSERT INTO overrides (id,tenant_id,limit_id,kind,rate,reason,author_id,author,created_at,ended_at,end_reason) VALUES
 ('ovr_aaaaaaaaaaaaaaaa','ten_aaaaaaaaaaaaaaaa','plan.x','override','1/minute','r','','t',now(),NULL,''),
 ('ovr_eeeeeeeeeeeeeeee','ten_aaaaaaaaaaaaaaaa','plan.x','override','1/minute','r','','t',now(),now(),'over');
INSERT INTO policy_versions (number, digest, parent, body, changes, note, author_id, author, kind, created_at) VALUES
 (5,'sha256:'||encode(sha256('{}'),'hex'),'','{}','[]','','','t','publish',now());
UPDATE policy_head SET number = 5 WHERE one;
INSERT INTO operators (id, email, name, role, created_at) VALUES
 ('opr_aaaaaaaaaaaaaaaa','Ann@example.com','Ann','owner',now()), ('opr_bbbbbbbbbbbbbbbb','bob@example.com','Bob','viewer',now());
INSERT INTO audit_events (seq, at, actor_id, actor, role, via, action, object, object_id, prev_hash, hash) VALUES
 (1,now(),'','t','','cli','tenant.create','tenant','x',decode('` + hex64a + `','hex'),decode('` + hex64b + `','hex'));
`

var (
	hex64a = strings.Repeat("a", 64)
	hex64b = strings.Repeat("b", 64)
	hex64c = strings.Repeat("c", 64)
	hex64d = strings.Repeat("d", 64)
)

const key = `INSERT INTO key_versions (kid, credential_id, tenant_id, digest, state, seq, created_at, activated_at, resume_state, retiring_at, not_after, revoked_at, revoke_reason, ended_at) VALUES `

const override = `INSERT INTO overrides (id,tenant_id,limit_id,kind,rate,factor_milli,reason,author_id,author,created_at,expires_at) VALUES `

func TestSchema_BadStatesAreRefusedByPostgreSQL(t *testing.T) {
	t.Parallel()
	conn := fixtureConn(t)
	d := "'sha256:" + hex64d + "'"
	tenantKey := `'crd_aaaaaaaaaaaaaaaa','ten_aaaaaaaaaaaaaaaa',` + d
	for name, c := range map[string]struct{ sql, want string }{
		"tenant id of another shape":                  {`INSERT INTO tenants (id,name,plan,time_zone,state,seq,created_at,updated_at) VALUES ('x','A','free','UTC','active',1,now(),now())`, "23514"},
		"unknown tenant state":                        {`UPDATE tenants SET state='gone' WHERE id='ten_aaaaaaaaaaaaaaaa'`, "23514"},
		"tenant name with blanks":                     {`UPDATE tenants SET name=' A' WHERE id='ten_aaaaaaaaaaaaaaaa'`, "23514"},
		"deleted tenant revived":                      {`UPDATE tenants SET state='active' WHERE id='ten_dddddddddddddddd'`, "23514"},
		"second override of a limit that holds":       {override + `('ovr_bbbbbbbbbbbbbbbb','ten_aaaaaaaaaaaaaaaa','plan.x','override','2/minute',NULL,'r','','t',now(),NULL)`, "23505"},
		"override without a value":                    {override + `('ovr_bbbbbbbbbbbbbbbb','ten_aaaaaaaaaaaaaaaa','plan.y','override','',NULL,'r','','t',now(),NULL)`, "23514"},
		"override without a reason":                   {override + `('ovr_bbbbbbbbbbbbbbbb','ten_aaaaaaaaaaaaaaaa','plan.y','override','2/minute',NULL,'','','t',now(),NULL)`, "23514"},
		"boost without an end":                        {override + `('ovr_bbbbbbbbbbbbbbbb','ten_aaaaaaaaaaaaaaaa','plan.x','boost','',2000,'r','','t',now(),NULL)`, "23514"},
		"boost with a value":                          {override + `('ovr_bbbbbbbbbbbbbbbb','ten_aaaaaaaaaaaaaaaa','plan.x','boost','2/minute',2000,'r','','t',now(),now()+interval '1 h')`, "23514"},
		"boost that lowers":                           {override + `('ovr_bbbbbbbbbbbbbbbb','ten_aaaaaaaaaaaaaaaa','plan.x','boost','',900,'r','','t',now(),now()+interval '1 h')`, "23514"},
		"override that ended before it began":         {`UPDATE overrides SET ended_at=created_at-interval '1 s', end_reason='r' WHERE id='ovr_aaaaaaaaaaaaaaaa'`, "23514"},
		"override ended without a reason":             {`UPDATE overrides SET ended_at=now() WHERE id='ovr_aaaaaaaaaaaaaaaa'`, "23514"},
		"override's value changed":                    {`UPDATE overrides SET rate='9/minute' WHERE id='ovr_aaaaaaaaaaaaaaaa'`, "23514"},
		"ended override revived":                      {`UPDATE overrides SET ended_at=NULL, end_reason='' WHERE id='ovr_eeeeeeeeeeeeeeee'`, "23514"},
		"override row removed":                        {`DELETE FROM overrides WHERE id='ovr_aaaaaaaaaaaaaaaa'`, "42501"},
		"quota anchor of another shape":               {`UPDATE tenants SET quota_anchor='31.1.2026' WHERE id='ten_aaaaaaaaaaaaaaaa'`, "23514"},
		"tenant row removed":                          {`DELETE FROM tenants WHERE id='ten_dddddddddddddddd'`, "42501"},
		"credential of no tenant":                     {`INSERT INTO credentials (id,tenant_id,name,environment,created_at) VALUES ('crd_bbbbbbbbbbbbbbbb','ten_bbbbbbbbbbbbbbbb','n','live',now())`, "23503"},
		"credential of ops environment":               {`INSERT INTO credentials (id,tenant_id,name,environment,created_at) VALUES ('crd_bbbbbbbbbbbbbbbb','ten_aaaaaaaaaaaaaaaa','n','ops',now())`, "23514"},
		"credential that expired before it began":     {`INSERT INTO credentials (id,tenant_id,name,environment,created_at,expires_at) VALUES ('crd_bbbbbbbbbbbbbbbb','ten_aaaaaaaaaaaaaaaa','n','live',now(),now())`, "23514"},
		"second active version":                       {key + `('second000000',` + tenantKey + `,'active',1,now(),now(),NULL,NULL,NULL,NULL,NULL,NULL)`, "23505"},
		"suspended version in the active one's place": {key + `('second000000',` + tenantKey + `,'suspended',1,now(),now(),'active',NULL,NULL,NULL,NULL,NULL)`, "23505"},
		"digest of another form":                      {key + `('second000000','crd_aaaaaaaaaaaaaaaa','ten_aaaaaaaaaaaaaaaa','md5:1','expired',1,now(),now(),NULL,NULL,NULL,NULL,NULL,now())`, "23514"},
		"digest used twice":                           {key + `('second000000','crd_aaaaaaaaaaaaaaaa','ten_aaaaaaaaaaaaaaaa','sha256:` + hex64a + `','expired',1,now(),now(),NULL,NULL,NULL,NULL,NULL,now())`, "23505"},
		"kid of another shape":                        {key + `('short',` + tenantKey + `,'expired',1,now(),now(),NULL,NULL,NULL,NULL,NULL,now())`, "23514"},
		"version of another tenant":                   {key + `('second000000','crd_aaaaaaaaaaaaaaaa','ten_dddddddddddddddd',` + d + `,'expired',1,now(),now(),NULL,NULL,NULL,NULL,NULL,now())`, "23503"},
		"suspended without resume state":              {`UPDATE key_versions SET state='suspended' WHERE kid='active000000'`, "23514"},
		"retiring without deadline":                   {`UPDATE key_versions SET state='retiring' WHERE kid='active000000'`, "23514"},
		"revoked without reason":                      {`UPDATE key_versions SET state='revoked', revoked_at=now(), ended_at=now() WHERE kid='active000000'`, "23514"},
		"revoked for an unknown reason":               {`UPDATE key_versions SET state='revoked', revoked_at=now(), ended_at=now(), revoke_reason='why' WHERE kid='active000000'`, "23514"},
		"expired without end":                         {`UPDATE key_versions SET state='expired' WHERE kid='active000000'`, "23514"},
		"revoked version revived":                     {`UPDATE key_versions SET state='active', revoked_at=NULL, revoke_reason=NULL, ended_at=NULL WHERE kid='revoked00000'`, "23514"},
		"expired version revived":                     {`UPDATE key_versions SET state='suspended', resume_state='active', ended_at=NULL WHERE kid='expired00000'`, "23514"},
		"version row removed":                         {`DELETE FROM key_versions WHERE kid='revoked00000'`, "42501"},
		"rotation of one version":                     {`INSERT INTO rotations (id,credential_id,tenant_id,old_kid,new_kid,state,reason,overlap_seconds,started_at,ends_at) VALUES ('rot_bbbbbbbbbbbbbbbb','crd_aaaaaaaaaaaaaaaa','ten_aaaaaaaaaaaaaaaa','active000000','active000000','overlap','',60,now(),now())`, "23514"},
		"rotation that is over and runs":              {`INSERT INTO rotations (id,credential_id,tenant_id,old_kid,new_kid,state,reason,overlap_seconds,started_at,ends_at,ended_at) VALUES ('rot_bbbbbbbbbbbbbbbb','crd_aaaaaaaaaaaaaaaa','ten_aaaaaaaaaaaaaaaa','expired00000','active000000','overlap','',60,now(),now(),now())`, "23514"},
		"rotation that ends before it begins":         {`INSERT INTO rotations (id,credential_id,tenant_id,old_kid,new_kid,state,reason,overlap_seconds,started_at,ends_at) VALUES ('rot_bbbbbbbbbbbbbbbb','crd_aaaaaaaaaaaaaaaa','ten_aaaaaaaaaaaaaaaa','expired00000','active000000','overlap','',60,now(),now()-interval '1 s')`, "23514"},
		"rotation reopened":                           {`UPDATE rotations SET state='overlap', ended_at=NULL WHERE id='rot_aaaaaaaaaaaaaaaa'`, "23514"},
		"rotation row removed":                        {`DELETE FROM rotations`, "42501"},
	} {
		if got := refused(t, conn, c.sql); got != c.want {
			t.Errorf("%s: %s: SQLSTATE %q, want %s", name, c.sql, got, c.want)
		}
	}
}

func TestSchema_BadStatesOfRecordsAreRefusedByPostgreSQL(t *testing.T) {
	t.Parallel()
	conn := fixtureConn(t)
	for name, c := range map[string]struct{ sql, want string }{
		"version changed":                      {`UPDATE policy_versions SET note='x' WHERE number=5`, "42501"},
		"version removed":                      {`DELETE FROM policy_versions WHERE number=5`, "42501"},
		"versions truncated":                   {`TRUNCATE policy_versions CASCADE`, "42501"},
		"version with another digest":          {`INSERT INTO policy_versions (number,digest,parent,body,changes,note,author_id,author,kind,created_at) VALUES (6,'sha256:` + hex64a + `','','{}','[]','','','t','publish',now())`, "23514"},
		"roll back to nothing":                 {`INSERT INTO policy_versions (number,digest,parent,body,changes,note,author_id,author,kind,created_at) VALUES (6,'sha256:'||encode(sha256('{}'),'hex'),'','{}','[]','','','t','rollback',now())`, "23514"},
		"head goes back":                       {`UPDATE policy_head SET number=NULL WHERE one`, "23514"},
		"head stays":                           {`UPDATE policy_head SET number=5 WHERE one`, "23514"},
		"head to an unknown version":           {`UPDATE policy_head SET number=6 WHERE one`, "23503"},
		"second head":                          {`INSERT INTO policy_head (one) VALUES (true)`, "23505"},
		"head removed":                         {`DELETE FROM policy_head`, "42501"},
		"unknown kind of outbox row":           {`INSERT INTO outbox (kind,ref,created_at) VALUES ('mail','x',now())`, "23514"},
		"e-mail address in another case":       {`INSERT INTO operators (id,email,name,role,created_at) VALUES ('opr_cccccccccccccccc','ann@EXAMPLE.com','A','viewer',now())`, "23505"},
		"unknown role":                         {`UPDATE operators SET role='root' WHERE email='bob@example.com'`, "23514"},
		"plain password":                       {`UPDATE operators SET password_hash='secret' WHERE email='bob@example.com'`, "23514"},
		"last owner demoted":                   {`UPDATE operators SET role='viewer' WHERE email='Ann@example.com'`, "23514"},
		"last owner disabled":                  {`UPDATE operators SET disabled_at=now() WHERE email='Ann@example.com'`, "23514"},
		"operator row removed":                 {`DELETE FROM operators WHERE email='bob@example.com'`, "42501"},
		"session longer than 12 hours":         {`INSERT INTO sessions (hash,operator_id,data,ip,user_agent,created_at,seen_at,expires_at) VALUES ('` + hex64a + `','opr_aaaaaaaaaaaaaaaa','{}','','',now(),now(),now()+interval '13 hours')`, "23514"},
		"session under its plain id":           {`INSERT INTO sessions (hash,operator_id,data,ip,user_agent,created_at,seen_at,expires_at) VALUES ('ABCDEFGHIJKLMNOPQRSTUVWXYZ','opr_aaaaaaaaaaaaaaaa','{}','','',now(),now(),now()+interval '1 hour')`, "23514"},
		"token of no operator":                 {`INSERT INTO api_tokens (kid,operator_id,name,digest,created_at) VALUES ('token0000000','opr_zzzzzzzzzzzzzzzz','n','sha256:` + hex64a + `',now())`, "23503"},
		"audit row changed":                    {`UPDATE audit_events SET actor='x' WHERE seq=1`, "42501"},
		"audit row removed":                    {`DELETE FROM audit_events WHERE seq=1`, "42501"},
		"audit trail truncated":                {`TRUNCATE audit_events`, "42501"},
		"negative cost of an admitted request": {`INSERT INTO usage_events VALUES (now(),1,1,1,-1,1,'','','r','admitted')`, "23514"},
		"usage event of number 0":              {`INSERT INTO usage_events VALUES (now(),1,0,1,1,1,'','','r','admitted')`, "23514"},
		"usage events emptied":                 {`TRUNCATE usage_events`, "42501"},
		"closed usage period removed":          {`DELETE FROM usage_periods`, "42501"},
		"held usage removed":                   {`DELETE FROM usage_quarantine`, "42501"},
		"usage held twice over":                {`INSERT INTO usage_quarantine (reason,detail,replica,boot,seq,event,body,events,received_at) VALUES ('late','','g','b',1,'{}','x',1,now())`, "23514"},
		"gap that misses more than it spans":   {`INSERT INTO usage_gaps (run,first_seq,last_seq,missing,after_at,noted_at) VALUES (1,1,2,3,now(),now())`, "23514"},
		"audit trail forked":                   {`INSERT INTO audit_events (seq,at,actor_id,actor,role,via,action,object,object_id,prev_hash,hash) VALUES (2,now(),'','t','','cli','tenant.create','tenant','x',decode('` + hex64a + `','hex'),decode('` + hex64c + `','hex'))`, "23505"},
	} {
		if got := refused(t, conn, c.sql); got != c.want {
			t.Errorf("%s: %s: SQLSTATE %q, want %s", name, c.sql, got, c.want)
		}
	}
}

// refused runs sql in a transaction that is rolled back, and returns its SQLSTATE.
func refused(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), sql)
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

func fixtureConn(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), testkit.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), fixture); err != nil {
		t.Fatalf("fixture: %v", err)
	}
	return conn
}

func TestSchema_GoodStatesAreAccepted(t *testing.T) {
	t.Parallel()
	conn := fixtureConn(t)
	for _, sql := range []string{
		`UPDATE key_versions SET state='suspended', resume_state='active' WHERE kid='active000000'`,
		`UPDATE key_versions SET state='retiring', retiring_at=now(), not_after=now() WHERE kid='active000000'`,
		`UPDATE tenants SET state='suspended' WHERE id='ten_aaaaaaaaaaaaaaaa'`,
		`UPDATE tenants SET name='kept' WHERE id='ten_dddddddddddddddd'`,
		`UPDATE operators SET role='owner' WHERE email='bob@example.com'`,
	} {
		if code := refused(t, conn, sql); code != "" {
			t.Errorf("%s: SQLSTATE %s", sql, code)
		}
	}
}
