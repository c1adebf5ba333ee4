package portal_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/webtest"
)

// many is how many things of each tenant the walk over foreign ids has.
const many = 50

// things are ids of one tenant's things, by kind.
type things map[string][]string

// fill gives a tenant credentials with keys and rotations, members, invitations,
// asks and thresholds: many in all, and more.
func fill(t *testing.T, w *webtest.World, ten console.Tenant, admin *webtest.Client) things {
	t.Helper()
	ctx, owner := t.Context(), w.Actor(console.RoleOwner)
	out := things{}
	rules := console.DefaultPortalRules()
	rules.Members = 100
	if err := w.Web.Members.SetRules(ctx, owner, ten.ID, &rules); err != nil {
		t.Fatal(err)
	}
	for i := range many / 5 {
		is, err := w.Web.Keys.IssueCredential(ctx, owner, ten.ID, console.NewCredential{Name: fmt.Sprint(ten.Name, " key ", i), Environment: "live"})
		if err != nil {
			t.Fatal(err)
		}
		rot, err := w.Web.Rotations.Start(ctx, owner, is.Credential.ID, console.NewRotation{Overlap: time.Hour, Reason: ten.Name})
		if err != nil {
			t.Fatal(err)
		}
		invited, err := w.Web.Members.Invite(ctx, owner, ten.ID, console.NewInvitation{Email: fmt.Sprintf("i%d@%s.example", i, ten.ID[4:8]), Role: console.RoleTenantViewer})
		if err != nil {
			t.Fatal(err)
		}
		linked, err := w.Web.Members.IssueLink(ctx, owner, ten.ID, console.NewSignInLink{ExternalUser: fmt.Sprint("user ", i), Name: ten.Name, Role: console.RoleTenantViewer})
		if err != nil {
			t.Fatal(err)
		}
		out["credentials"] = append(out["credentials"], is.Credential.ID)
		out["keys"] = append(out["keys"], is.KeyVersion.KID, rot.KeyVersion.KID)
		out["rotations"] = append(out["rotations"], rot.Rotation.ID)
		out["invitations"] = append(out["invitations"], invited.Invitation.ID)
		out["members"] = append(out["members"], linked.Member.ID)
	}
	for i := range 5 {
		wants(t, admin.Post("/t/alerts", url.Values{"kind": {"refused-share"}, "value": {fmt.Sprint(i + 1)}}), http.StatusSeeOther)
	}
	page := admin.Get("/t/alerts").Text
	for _, part := range strings.Split(page, "/t/alerts/thr_")[1:] {
		out["alerts"] = append(out["alerts"], "thr_"+part[:16])
	}
	if n := len(out["alerts"]); n != 5 {
		t.Fatalf("%d alerts", n)
	}
	return out
}

// requests are all that a member can send that names a thing.
func requests(of things) []func(*webtest.Client) (string, webtest.Answer) {
	var out []func(*webtest.Client) (string, webtest.Answer)
	get := func(path string) {
		out = append(out, func(c *webtest.Client) (string, webtest.Answer) { return "GET " + path, c.Get(path) })
	}
	post := func(path string, form url.Values) {
		out = append(out, func(c *webtest.Client) (string, webtest.Answer) { return "POST " + path, c.Post(path, form) })
	}
	for _, id := range of["keys"] {
		get("/t/keys/" + id)
		post("/t/keys/"+id+"/revoke", url.Values{"reason": {"leak"}, "name": {"x"}})
	}
	for _, id := range of["credentials"] {
		get("/t/credentials/" + id + "/rotate")
		post("/t/credentials/"+id+"/rotate", url.Values{"overlap": {"1h"}, "reason": {"x"}, "token": {strings.Repeat("A", 20)}})
	}
	for i, id := range of["rotations"] {
		get("/t/rotations/" + id)
		act := []string{"extend", "end", "cancel"}[i%3]
		post("/t/rotations/"+id+"/"+act, url.Values{"by": {"1h"}, "reason": {"x"}})
	}
	for _, id := range of["members"] {
		post("/t/members/"+id+"/role", url.Values{"role": {"tenant-admin"}})
		post("/t/members/"+id+"/remove", nil)
	}
	for _, id := range of["invitations"] {
		post("/t/members/"+id+"/uninvite", nil)
	}
	for _, id := range of["alerts"] {
		post("/t/alerts/"+id+"/remove", nil)
	}
	return out
}

// unknown are ids that never were, as many and of the same shapes.
func unknown(of things) things {
	out := things{}
	for kind, ids := range of {
		for i, id := range ids {
			fresh := strings.Repeat(string(rune('p'+i%8)), 12)
			if prefix, _, ok := strings.Cut(id, "_"); ok {
				fresh = prefix + "_" + strings.Repeat(string(rune('p'+i%8)), 16)
			}
			out[kind] = append(out[kind], fresh)
		}
	}
	return out
}

func TestPages_A05_ForeignAndUnknownIdsGiveTheSame404(t *testing.T) {
	t.Parallel()
	w, a, b := world(t)
	adminA := join(t, w, a, "admin@a.example", console.RoleTenantAdmin)
	adminB := join(t, w, b, "admin@b.example", console.RoleTenantAdmin)
	fill(t, w, a, adminA)
	theirs := fill(t, w, b, adminB)
	if n := len(theirs["keys"]) + len(theirs["credentials"]) + len(theirs["rotations"]) + len(theirs["invitations"]) + len(theirs["members"]); n < many {
		t.Fatalf("only %d things", n)
	}
	before := state(t, w, b)
	strange, never := requests(theirs), requests(unknown(theirs))
	for i := range strange {
		name, foreign := strange[i](adminA)
		_, absent := never[i](adminA)
		if foreign.StatusCode != http.StatusNotFound || absent.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d, and %d for what never was", name, foreign.StatusCode, absent.StatusCode)
			continue
		}
		if foreign.Text != absent.Text {
			t.Errorf("%s tells a foreign thing from what never was:\n%s\n%s", name, foreign.Text, absent.Text)
		}
		foreign.Header.Del("X-Request-Id")
		absent.Header.Del("X-Request-Id")
		if f, a := fmt.Sprint(foreign.Header), fmt.Sprint(absent.Header); f != a {
			t.Errorf("%s: headers differ: %s and %s", name, f, a)
		}
	}
	if after := state(t, w, b); after != before {
		t.Errorf("the other tenant changed:\n%s\n%s", before, after)
	}
}

// state is what there is of a tenant, to tell whether anything changed.
func state(t *testing.T, w *webtest.World, ten console.Tenant) string {
	t.Helper()
	list, err := w.Web.Keys.ListCredentials(t.Context(), ten.ID)
	if err != nil {
		t.Fatal(err)
	}
	members, open, err := w.Web.Members.List(t.Context(), w.Actor(console.RoleOwner), ten.ID)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, c := range list {
		for _, v := range c.Versions {
			fmt.Fprintln(&b, v.KID, v.State, v.Seq)
		}
	}
	for _, m := range members {
		fmt.Fprintln(&b, m.ID, m.Role)
	}
	fmt.Fprintln(&b, len(open))
	return b.String()
}

// Each tenant's texts carry a taint; no page of the other may show it.
func TestPages_I18_NoAnswerHoldsAnythingOfAnotherTenant(t *testing.T) {
	t.Parallel()
	w, a, b := world(t)
	clients := map[string]*webtest.Client{"taint-a": join(t, w, a, "admin@taint-a.example", console.RoleTenantAdmin), "taint-b": join(t, w, b, "admin@taint-b.example", console.RoleTenantAdmin)}
	ids := map[string]things{"taint-a": fill(t, w, a, clients["taint-a"]), "taint-b": fill(t, w, b, clients["taint-b"])}
	for name, c := range clients {
		other := "taint-b"
		if name == other {
			other = "taint-a"
		}
		bad := []string{other, map[string]string{"taint-a": a.ID, "taint-b": b.ID}[other]}
		for _, list := range ids[other] {
			bad = append(bad, list...)
		}
		paths := pages()
		for _, kid := range ids[name]["keys"] {
			paths = append(paths, "/t/keys/"+kid)
		}
		for _, id := range ids[name]["rotations"] {
			paths = append(paths, "/t/rotations/"+id)
		}
		for _, path := range paths {
			got := c.Get(path)
			wants(t, got, http.StatusOK)
			for _, word := range bad {
				if strings.Contains(got.Text, word) {
					t.Errorf("%s of %s holds %q", path, name, word)
				}
			}
		}
		// Naming the other tenant anywhere changes nothing.
		for _, path := range []string{"/t/keys?tenant=" + bad[1], "/t?tenant_id=" + bad[1], "/t/usage.csv?tenant=" + bad[1]} {
			c.Header.Set("X-Tenant", bad[1])
			if got := c.Get(path); strings.Contains(got.Text, other) {
				t.Errorf("%s of %s shows the other tenant", path, name)
			}
		}
	}
}
