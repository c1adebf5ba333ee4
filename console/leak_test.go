package console_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
)

func (e *env) leaks(rules console.LeakRules) *console.Leaks { return console.NewLeaks(e.deps, rules) }

func TestLeaks_FindSaysWhoseAKeyIsAndWhatIsInvented(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	out := e.issue(t, e.tenant(t, "Acme").ID)
	key := out.Secret.Reveal()
	invented, _, err := apikey.Generate("live", bytes.NewReader(bytes.Repeat([]byte{7}, 4096)))
	if err != nil {
		t.Fatal(err)
	}
	op, err := e.operators.Create(e.ctx, owner, console.NewOperator{Email: "ann@example.com", Name: "Ann", Role: console.RoleOwner})
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := e.operators.IssueToken(e.ctx, console.SystemActor(), op.ID, "ci", nil)
	if err != nil {
		t.Fatal(err)
	}
	text := "curl -H 'Authorization: Bearer " + key + "'\n" + key + " " + invented.Reveal() + " export TOKEN=" + token + " hg_live_" + out.KeyVersion.KID + "_…"
	finds, err := e.leaks(console.LeakRules{}).Find(e.ctx, as(console.RoleViewer), text)
	if err != nil || len(finds) != 3 {
		t.Fatalf("%d found: %+v, %v", len(finds), finds, err)
	}
	if f := finds[0]; !f.Ours || f.Version.KID != out.KeyVersion.KID || f.Tenant.Name != "Acme" || f.Masked != apikey.Mask(key) || f.Operator != "" {
		t.Errorf("the key: %+v", f)
	}
	if f := finds[1]; f.Ours || f.Version.KID != "" || f.Tenant.ID != "" {
		t.Errorf("the invented key: %+v", f)
	}
	if f := finds[2]; !f.Ours || f.Operator != "Ann" || f.Environment != apikey.Ops || f.Revoked {
		t.Errorf("the token: %+v", f)
	}
	if printed := fmt.Sprintf("%+v %#v", finds, finds); strings.Contains(printed, key) || strings.Contains(printed, token) {
		t.Error("what was found repeats a secret")
	}
	_, err = e.leaks(console.LeakRules{}).Find(e.ctx, owner, strings.Repeat("x", console.MaxLeakText+1))
	wantCode(t, err, console.CodeInvalid)
	_, err = e.leaks(console.LeakRules{}).Find(e.ctx, console.Actor{}, text)
	wantCode(t, err, console.CodeForbidden)
}

// A kid with another secret is no leak of the key that has the kid: else anybody
// who knows a kid, which is public, could have it revoked.
func TestLeaks_AKidWithAnotherSecretIsNotTheKey(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	forged := forge(t, out.KeyVersion.KID)
	finds, err := e.leaks(console.LeakRules{}).Find(e.ctx, owner, forged)
	if err != nil || len(finds) != 1 || finds[0].Ours || finds[0].Version.TenantID != "" {
		t.Fatalf("%+v, %v", finds, err)
	}
	verdicts, err := e.leaks(console.LeakRules{Revoke: true}).Take(e.ctx, "github", []console.LeakReport{{Token: console.NewLeakToken(forged)}})
	if err != nil || verdicts[0].Ours {
		t.Fatalf("%+v, %v", verdicts, err)
	}
	if k := e.key(t, out.KeyVersion.KID); k.State != policy.KeyActive || k.Leaked {
		t.Fatalf("%+v", k)
	}
}

// forge makes a well-formed key with a given kid and a secret of its own.
func forge(t *testing.T, kid string) string {
	t.Helper()
	body := "hg_live_" + kid + "_" + strings.Repeat("z", 32)
	// The format's own generator, with the kid as its first random characters.
	alphabet := "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	var random []byte
	for _, c := range kid + strings.Repeat("z", 32) {
		random = append(random, byte(strings.IndexRune(alphabet, c)))
	}
	secret, got, err := apikey.Generate("live", bytes.NewReader(random))
	if err != nil || got != kid || !strings.HasPrefix(secret.Reveal(), body) {
		t.Fatalf("forge %s: %v", kid, err)
	}
	return secret.Reveal()
}

func TestLeaks_ContainRevokesAndReplacesInOneStep(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	done, err := e.leaks(console.LeakRules{}).Contain(e.ctx, owner, console.Containment{
		KID: out.KeyVersion.KID, Replace: true, URL: "https://example.com/paste?k=" + out.Secret.Reveal(), Note: "on a paste site: " + out.Secret.Reveal(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if !done.Replaced || done.Working != done.KeyVersion.KID || !apikey.Equal(e.key(t, done.KeyVersion.KID).Digest, done.Secret.Reveal()) || done.Change.OutboxID == 0 {
		t.Fatalf("%+v", done)
	}
	if k := e.key(t, out.KeyVersion.KID); k.State != policy.KeyRevoked || k.RevokeReason != console.RevokeLeak || !k.Leaked {
		t.Fatalf("the leaked one: %+v", k)
	}
	c := done.Case
	if c.State != console.LeakContained || c.Done != "revoked and replaced" || c.Source != "console" || c.ClosedBy != "Ann" || c.TenantName != "A" ||
		strings.Contains(c.URL+c.Note, out.Secret.Reveal()) || !strings.Contains(c.URL, "hg_live_"+out.KeyVersion.KID+"_…") {
		t.Fatalf("case %+v", c)
	}
	list, err := e.rotations.List(e.ctx, false)
	if err != nil || len(list) != 1 || list[0].State != console.RotationForced || list[0].NewKID != done.KeyVersion.KID || list[0].Overlap != 0 {
		t.Fatalf("rotations %+v, %v", list, err)
	}
	got := strings.Join(e.actions(t), " ")
	if !strings.HasSuffix(got, "key.revoke rotation.start leak.contain") {
		t.Fatalf("actions %s", got)
	}
	if _, next, err := e.leaks(console.LeakRules{}).List(e.ctx, console.LeakQuery{State: console.LeakContained}); err != nil || next != "" {
		t.Fatal(next, err)
	}
}

func TestLeaks_ContainInARotationKeepsTheVersionThatDidNotGetOut(t *testing.T) {
	t.Parallel()
	for name, which := range map[string]func(console.Issued, console.Started) (leaked, stays string){
		"the old one leaks": func(o console.Issued, s console.Started) (string, string) { return o.KeyVersion.KID, s.KeyVersion.KID },
		"the new one leaks": func(o console.Issued, s console.Started) (string, string) { return s.KeyVersion.KID, o.KeyVersion.KID },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			out := e.issue(t, e.tenant(t, "A").ID)
			leaked, stays := which(out, e.rotate(t, out.Credential.ID, dayLong))
			done, err := e.leaks(console.LeakRules{}).Contain(e.ctx, owner, console.Containment{KID: leaked, Replace: true, Note: "r"})
			if err != nil || done.Replaced || done.Working != stays || done.Case.Done != "revoked" {
				t.Fatalf("%+v, %v", done, err)
			}
			if k := e.key(t, stays); k.State != policy.KeyActive {
				t.Fatalf("%+v", k)
			}
		})
	}
}

func TestLeaks_ContainOfAnEndedKeyIsNotedAndReplacedWhenNothingWorks(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	if _, err := e.keys.Revoke(e.ctx, owner, out.KeyVersion.KID, "mistake"); err != nil {
		t.Fatal(err)
	}
	l := e.leaks(console.LeakRules{})
	done, err := l.Contain(e.ctx, owner, console.Containment{KID: out.KeyVersion.KID, Note: "r"})
	if err != nil || done.Case.Done != "had ended before" || done.Working != "" || !e.key(t, out.KeyVersion.KID).Leaked {
		t.Fatalf("%+v, %v", done, err)
	}
	e.clock.add(time.Second)
	if done, err = l.Contain(e.ctx, owner, console.Containment{KID: out.KeyVersion.KID, Replace: true, Note: "r"}); err != nil || !done.Replaced {
		t.Fatalf("%+v, %v", done, err)
	}
	_, err = l.Contain(e.ctx, owner, console.Containment{KID: "0123456789AB", Note: "r"})
	wantCode(t, err, console.CodeNotFound)
	_, err = l.Contain(e.ctx, owner, console.Containment{KID: out.KeyVersion.KID})
	wantCode(t, err, console.CodeInvalid)
	_, err = l.Contain(e.ctx, as(console.RolePublisher), console.Containment{KID: out.KeyVersion.KID, Note: "r"})
	wantCode(t, err, console.CodeForbidden)
}

func report(key, url string) []console.LeakReport {
	return []console.LeakReport{{Token: console.NewLeakToken(key), Kind: "headgate_key", URL: url}}
}

func TestLeaks_ReportsOpenOneCaseAndAreCounted(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	l, key := e.leaks(console.LeakRules{}), out.Secret.Reveal()
	take := func(url, want string) string {
		t.Helper()
		v, err := l.Take(e.ctx, "github", report(key, url))
		if err != nil || len(v) != 1 || !v[0].Ours || v[0].Done != want {
			t.Fatalf("%+v, %v, want %s", v, err, want)
		}
		return v[0].Case
	}
	id := take("https://a.example", "opened")
	if again := take("https://a.example", "open already"); again != id {
		t.Fatalf("case %s and %s", id, again)
	}
	if n, err := l.CountOpen(e.ctx); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	cases, _, err := l.List(e.ctx, console.LeakQuery{KID: out.KeyVersion.KID})
	if err != nil || len(cases) != 1 || cases[0].Reports != 2 || cases[0].Kind != "headgate_key" || cases[0].URL != "https://a.example" || !e.key(t, out.KeyVersion.KID).Leaked {
		t.Fatalf("%+v, %v", cases, err)
	}
	if k := e.key(t, out.KeyVersion.KID); k.State != policy.KeyActive {
		t.Fatalf("%+v", k)
	}
	if err := l.Dismiss(e.ctx, owner, id, "our own documentation"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, l.Dismiss(e.ctx, owner, id, "again"), console.CodeConflict)
	wantCode(t, l.Dismiss(e.ctx, owner, id, ""), console.CodeInvalid)
	wantCode(t, l.Dismiss(e.ctx, as(console.RoleViewer), id, "r"), console.CodeForbidden)
	wantCode(t, l.Dismiss(e.ctx, owner, "lek_aaaaaaaaaaaaaaaa", "r"), console.CodeNotFound)
	take("https://a.example", "dismissed")
	e.clock.add(time.Second)
	second := take("https://b.example", "opened") // another place: somebody looks again
	done, err := l.Contain(e.ctx, owner, console.Containment{KID: out.KeyVersion.KID, Note: "r"})
	if err != nil || done.Case.ID != second || done.Case.State != console.LeakContained {
		t.Fatalf("%+v, %v", done, err)
	}
	take("https://c.example", "had ended before")
}

func TestLeaks_TheRuleRevokesAtOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	v, err := e.leaks(console.LeakRules{Revoke: true}).Take(e.ctx, "github", append(report("nonsense", ""), report(out.Secret.Reveal(), "")...))
	if err != nil || v[0].Ours || v[0].Done != "nothing" || !v[1].Ours || v[1].Done != "revoked" {
		t.Fatalf("%+v, %v", v, err)
	}
	if k := e.key(t, out.KeyVersion.KID); k.State != policy.KeyRevoked || k.RevokeReason != console.RevokeLeak {
		t.Fatalf("%+v", k)
	}
	events := e.events(t)
	if ev := events[0]; ev.Action != "leak.contain" || ev.Actor != "leak intake (github)" || ev.Via != console.ViaSystem {
		t.Fatalf("event %+v", ev)
	}
}

func TestLeaks_AnOperatorsTokenIsRevokedAtOnceWhateverTheRule(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	op, err := e.operators.Create(e.ctx, owner, console.NewOperator{Email: "ann@example.com", Name: "Ann", Role: console.RoleOwner})
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := e.operators.IssueToken(e.ctx, console.SystemActor(), op.ID, "ci", nil)
	if err != nil {
		t.Fatal(err)
	}
	l := e.leaks(console.LeakRules{})
	for _, want := range []string{"revoked", "had ended before"} {
		if v, err := l.Take(e.ctx, "github", report(token, "")); err != nil || !v[0].Ours || v[0].Done != want || v[0].Case != "" {
			t.Fatalf("%+v, %v, want %s", v, err, want)
		}
	}
	_, err = e.operators.Authenticate(e.ctx, token)
	wantCode(t, err, console.CodeUnauthenticated)
}

// TestLeaks_B5_OfFiftyReportsAtOnceOneOpensTheCase holds that reports that meet
// make one case, and are all counted.
func TestLeaks_B5_OfFiftyReportsAtOnceOneOpensTheCase(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	l := e.leaks(console.LeakRules{})
	opened := make(chan string, 50)
	errs := atOnce(50, func(int) error {
		v, err := l.Take(e.ctx, "github", report(out.Secret.Reveal(), ""))
		if err == nil {
			opened <- v[0].Done
		}
		return err
	})
	close(opened)
	counts := map[string]int64{}
	for done := range opened {
		counts[done]++
	}
	for _, err := range errs {
		if c := console.CodeOf(err); c != "" && c != console.CodeUnavailable {
			t.Error(err)
		}
	}
	cases, _, err := l.List(e.ctx, console.LeakQuery{})
	if err != nil || len(cases) != 1 || counts["opened"] != 1 || cases[0].Reports != counts["opened"]+counts["open already"] {
		t.Fatalf("%v, cases %+v, %v", counts, cases, err)
	}
}

// TestLeaks_A16_NoPartOfASecretIsStoredOrLogged takes one secret through every
// way into the service, and looks for it in the whole database and in the log.
func TestLeaks_A16_NoPartOfASecretIsStoredOrLogged(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var log bytes.Buffer
	e.deps.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	out := e.issue(t, e.tenant(t, "A").ID)
	key := out.Secret.Reveal()
	l := e.leaks(console.LeakRules{})
	if _, err := l.Find(e.ctx, owner, key); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Take(e.ctx, "github", []console.LeakReport{{Token: console.NewLeakToken(key), Kind: key, URL: "https://x/" + key}}); err != nil {
		t.Fatal(err)
	}
	done, err := l.Contain(e.ctx, owner, console.Containment{KID: out.KeyVersion.KID, Replace: true, URL: key, Note: "see " + key})
	if err != nil {
		t.Fatal(err)
	}
	r := console.LeakReport{Token: console.NewLeakToken(key)}
	dump := e.dump(t) + log.String() + fmt.Sprintf("%v %+v %#v %s %q %x", r, r, r, r, r, r)
	for _, secret := range []string{key, done.Secret.Reveal()} {
		for at := len("hg_live_") + 13; at+10 <= len(secret); at++ {
			if part := secret[at : at+10]; strings.Contains(dump, part) {
				t.Fatalf("%q, a part of a secret, is stored or logged", part)
			}
		}
	}
}

// dump is every row of every table as text.
func (e *env) dump(t *testing.T) string {
	t.Helper()
	conn, err := pgx.Connect(e.ctx, e.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(e.ctx) }()
	tables, err := conn.Query(e.ctx, `SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public'`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(tables, pgx.RowTo[string])
	if err != nil || len(names) < 10 {
		t.Fatalf("%d tables, %v", len(names), err)
	}
	var out strings.Builder
	for _, name := range names {
		rows, err := conn.Query(e.ctx, `SELECT x::text FROM `+name+` x`)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			out.WriteString(line)
		}
	}
	return out.String()
}
