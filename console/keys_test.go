package console_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
)

const dayLong = 24 * time.Hour

func TestKeys_IssuedSecretBelongsToItsVersionAndIsStoredNowhere(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	made := e.tenant(t, "A")
	out, err := e.keys.IssueCredential(e.ctx, owner, made.ID, console.NewCredential{Name: "main", Environment: "live", Scopes: []string{"read", "read", "write"}})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := apikey.Parse(out.Secret.Reveal())
	if err != nil || parsed.KID != out.KeyVersion.KID || parsed.Environment != "live" {
		t.Fatalf("secret says %+v (%v)", parsed, err)
	}
	k := e.key(t, parsed.KID)
	if !apikey.Equal(k.Digest, out.Secret.Reveal()) || k.State != policy.KeyActive || !slices.Equal(k.Scopes, []string{"read", "write"}) {
		t.Fatalf("stored %+v", k)
	}
	events, _ := json.Marshal(e.events(t))
	secretPart := strings.Split(out.Secret.Reveal(), "_")[3]
	if strings.Contains(string(events), secretPart) || strings.Contains(string(events), k.Digest) {
		t.Fatal("the audit trail holds the secret or its digest")
	}
	if printed := fmt.Sprintf("%v %+v %s", out, out, out.Secret); strings.Contains(printed, secretPart) {
		t.Fatal("printing the answer shows the secret")
	}
}

func TestKeys_BadInputNamesEachField(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	made := e.tenant(t, "A")
	past := e.clock.now()
	_, err := e.keys.IssueCredential(e.ctx, owner, made.ID, console.NewCredential{Environment: "ops", Scopes: []string{"No Scope"}, ExpiresAt: &past})
	got := errorWith(t, err, console.CodeInvalid)
	var fields []string
	for _, f := range got.Fields {
		fields = append(fields, f.Field)
	}
	if want := []string{"name", "scopes", "environment", "expires_at"}; !slices.Equal(fields, want) {
		t.Fatalf("fields %v, want %v", fields, want)
	}
}

func TestKeys_RevokedKeyIsRefusedForGood(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	kid := out.KeyVersion.KID
	c, err := e.keys.Revoke(e.ctx, owner, kid, "leak: seen in a repository")
	if err != nil || c.OutboxID == 0 {
		t.Fatalf("change %+v (%v)", c, err)
	}
	k := e.key(t, kid)
	if k.State != policy.KeyRevoked || k.RevokeReason != console.RevokeLeak || k.RevokedAt == nil || k.Seq != 2 {
		t.Fatalf("key %+v", k)
	}
	if ev := e.events(t)[0]; ev.Action != "key.revoke" || ev.Reason != "leak: seen in a repository" {
		t.Fatalf("event %+v", ev)
	}
	for name, fn := range map[string]func() error{
		"revoke":  func() error { _, err := e.keys.Revoke(e.ctx, owner, kid, "leak"); return err },
		"suspend": func() error { _, err := e.keys.Suspend(e.ctx, owner, kid, "r"); return err },
		"resume":  func() error { _, err := e.keys.Resume(e.ctx, owner, kid, ""); return err },
		"rotate": func() error {
			_, err := e.rotations.Start(e.ctx, owner, out.Credential.ID, console.NewRotation{Overlap: dayLong, Reason: "r"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); wantCode(t, fn(), console.CodeConflict) })
	}
}

func TestKeys_RevokeReasonHasACategory(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	for reason, want := range map[string]string{
		"Mistake": console.RevokeMistake, "superseded : by hand": console.RevokeSuperseded, "because": console.RevokeOther,
	} {
		out := e.issue(t, ten.ID)
		if _, err := e.keys.Revoke(e.ctx, owner, out.KeyVersion.KID, reason); err != nil {
			t.Fatal(err)
		}
		if got := e.key(t, out.KeyVersion.KID).RevokeReason; got != want {
			t.Errorf("%q is %q, want %q", reason, got, want)
		}
	}
	out := e.issue(t, ten.ID)
	_, err := e.keys.Revoke(e.ctx, owner, out.KeyVersion.KID, "")
	wantCode(t, err, console.CodeInvalid)
}

func TestKeys_SuspendedKeyReturnsToTheStateItHad(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	out := e.issue(t, e.tenant(t, "A").ID)
	started, err := e.rotations.Start(e.ctx, owner, out.Credential.ID, console.NewRotation{Overlap: dayLong, Reason: "r"})
	if err != nil {
		t.Fatal(err)
	}
	for kid, was := range map[string]policy.KeyState{out.KeyVersion.KID: policy.KeyRetiring, started.KeyVersion.KID: policy.KeyActive} {
		if _, err := e.keys.Suspend(e.ctx, owner, kid, "look into it"); err != nil {
			t.Fatal(err)
		}
		if k := e.key(t, kid); k.State != policy.KeySuspended {
			t.Fatalf("key %+v", k)
		}
		_, err := e.keys.Suspend(e.ctx, owner, kid, "twice")
		wantCode(t, err, console.CodeConflict)
		if _, err := e.keys.Resume(e.ctx, owner, kid, ""); err != nil {
			t.Fatal(err)
		}
		if k := e.key(t, kid); k.State != was || k.ResumeState != "" {
			t.Fatalf("key %+v, want state %s", k, was)
		}
	}
}

func TestKeys_ExpiredKeyIsFinalisedByTheNextTouchAndByTheJob(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	at := e.clock.now().Add(time.Hour)
	issue := func() console.Issued {
		out, err := e.keys.IssueCredential(e.ctx, owner, ten.ID, console.NewCredential{Name: "short", Environment: "test", ExpiresAt: &at})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	touched, left := issue(), issue()
	e.clock.add(time.Hour)
	_, err := e.rotations.Start(e.ctx, owner, touched.Credential.ID, console.NewRotation{Overlap: dayLong, Reason: "r"})
	wantCode(t, err, console.CodeConflict)
	if err := e.jobs.Expire(e.ctx); err != nil {
		t.Fatal(err)
	}
	for _, out := range []console.Issued{touched, left} {
		if k := e.key(t, out.KeyVersion.KID); k.State != policy.KeyExpired || !k.EndedAt.Equal(at) {
			t.Errorf("key %+v", k)
		}
	}
	if got := e.actions(t); got[len(got)-1] != "key.expire" {
		t.Fatalf("actions %v", got)
	}
	if ev := e.events(t)[0]; ev.Via != console.ViaSystem {
		t.Fatalf("event %+v", ev)
	}
}

func TestKeys_ListIsPagedAndFiltered(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	a, b := e.tenant(t, "Acme"), e.tenant(t, "Beta")
	var all []string
	for range 4 {
		all = append(all, e.issue(t, a.ID).KeyVersion.KID)
	}
	other := e.issue(t, b.ID)
	seen := map[string]int{}
	page := console.Page{Limit: 2}
	for {
		items, next, err := e.keys.ListKeys(e.ctx, console.KeyQuery{TenantID: a.ID, Page: page})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range items {
			seen[k.KID]++
		}
		if page.After = next; next == "" {
			break
		}
	}
	for _, kid := range all {
		if seen[kid] != 1 {
			t.Errorf("%s was shown %d times", kid, seen[kid])
		}
	}
	for _, q := range []string{other.KeyVersion.KID, other.Secret.String(), other.Secret.Reveal(), "bet"} {
		items, _, err := e.keys.ListKeys(e.ctx, console.KeyQuery{Q: q})
		if err != nil || len(items) != 1 || items[0].KID != other.KeyVersion.KID || items[0].TenantName != "Beta" {
			t.Errorf("a search finds %v (%v)", items, err)
		}
	}
}

func TestKeys_CredentialsCarryTheirVersions(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ten := e.tenant(t, "A")
	first, second := e.issue(t, ten.ID), e.issue(t, ten.ID)
	e.clock.add(time.Second)
	started, err := e.rotations.Start(e.ctx, owner, first.Credential.ID, console.NewRotation{Overlap: dayLong, Reason: "r"})
	if err != nil {
		t.Fatal(err)
	}
	list, err := e.keys.ListCredentials(e.ctx, ten.ID)
	if err != nil || len(list) != 2 {
		t.Fatalf("list %v (%v)", list, err)
	}
	got, err := e.keys.GetCredential(e.ctx, first.Credential.ID)
	if err != nil || len(got.Versions) != 2 || got.Versions[0].KID != started.KeyVersion.KID {
		t.Fatalf("got %+v (%v)", got, err)
	}
	_, err = e.keys.GetCredential(e.ctx, "crd_unknown")
	wantCode(t, err, console.CodeNotFound)
	if n, _ := e.keys.Count(e.ctx); n != 3 {
		t.Fatalf("%d live keys", n)
	}
	_ = second
}
