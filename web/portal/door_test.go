package portal_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/webtest"
)

// cookie is the member's session id of a browser.
func cookie(c *webtest.Client) string {
	for _, k := range c.Cookies {
		if k.Name == "__Host-hgt" {
			return k.Value
		}
	}
	return ""
}

func signIn(t *testing.T, w *webtest.World, email, password string) (*webtest.Client, webtest.Answer) {
	t.Helper()
	c := w.Anonymous(t)
	return c, c.Post("/t/signin", url.Values{"email": {email}, "password": {password}})
}

func TestSignIn_A03_SessionIsFreshAndTheOldOneDead(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	c := join(t, w, a, "kim@a.example", console.RoleTenantAdmin)
	old := cookie(c)
	// A cookie that was set beforehand is not taken over.
	planted := w.Anonymous(t)
	planted.Cookies = []*http.Cookie{{Name: "__Host-hgt", Value: "AAAAAAAAAAAAAAAAAAAAAAAAAA"}}
	wants(t, planted.Post("/t/signin", url.Values{"email": {"kim@a.example"}, "password": {password}}), http.StatusSeeOther)
	if id := cookie(planted); id == "" || strings.HasPrefix(id, "AAAA") {
		t.Errorf("the session's id is %q", id)
	}
	// Signing in again in the same browser ends the session before.
	wants(t, c.Post("/t/signin", url.Values{"email": {"KIM@a.example"}, "password": {password}}), http.StatusSeeOther)
	if cookie(c) == old {
		t.Error("the session's id stayed")
	}
	replay := w.Anonymous(t)
	replay.Cookies = []*http.Cookie{{Name: "__Host-hgt", Value: old}}
	wants(t, replay.Get("/t"), http.StatusSeeOther)
	// So does signing out.
	last := cookie(c)
	wants(t, c.Post("/t/signout", nil), http.StatusSeeOther)
	replay.Cookies = []*http.Cookie{{Name: "__Host-hgt", Value: last}}
	wants(t, replay.Get("/t/keys"), http.StatusSeeOther)
}

func TestSession_A03_EndsIdleAndInAnyCase(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	c := join(t, w, a, "kim@a.example", console.RoleTenantAdmin)
	w.Advance(29 * time.Minute)
	wants(t, c.Get("/t/keys"), http.StatusOK)
	// What a page asks by itself keeps no session alive.
	w.Advance(20 * time.Minute)
	c.Header.Set("HX-Request", "true")
	wants(t, c.Get("/t/now"), http.StatusOK)
	c.Header.Del("HX-Request")
	w.Advance(11 * time.Minute)
	wants(t, c.Get("/t/keys"), http.StatusSeeOther)

	d, _ := signIn(t, w, "kim@a.example", password)
	for range 30 {
		w.Advance(25 * time.Minute)
		if got := d.Get("/t/keys"); got.StatusCode != http.StatusOK {
			return // after 12 hours
		}
	}
	t.Error("a session that is used lives for longer than 12 hours")
}

func TestSession_A03_EndsWithRoleMembershipAndTenant(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	owner := w.Actor(console.RoleOwner)
	admin := join(t, w, a, "admin@a.example", console.RoleTenantAdmin)
	members, _, err := w.Web.Members.List(t.Context(), owner, a.ID)
	if err != nil {
		t.Fatal(err)
	}
	join(t, w, a, "second@a.example", console.RoleTenantAdmin)
	if err := w.Web.Members.SetRole(t.Context(), owner, a.ID, members[0].ID, console.RoleTenantViewer); err != nil {
		t.Fatal(err)
	}
	wants(t, admin.Get("/t/keys"), http.StatusSeeOther)
	viewer, got := signIn(t, w, "admin@a.example", password)
	wants(t, got, http.StatusSeeOther)
	wants(t, viewer.Get("/t/keys/new"), http.StatusForbidden)
	if _, err := w.Web.Tenants.Suspend(t.Context(), owner, a.ID, "unpaid"); err != nil {
		t.Fatal(err)
	}
	wants(t, viewer.Get("/t/keys"), http.StatusSeeOther)
	_, got = signIn(t, w, "admin@a.example", password)
	wants(t, got, http.StatusForbidden, "suspended")
	if strings.Contains(got.Text, "unpaid") {
		t.Error("the operator's reason is shown")
	}
	if _, err := w.Web.Tenants.Resume(t.Context(), owner, a.ID, ""); err != nil {
		t.Fatal(err)
	}
	wants(t, viewer.Get("/t/keys"), http.StatusSeeOther) // what ended stays ended
	again, got := signIn(t, w, "admin@a.example", password)
	wants(t, got, http.StatusSeeOther)
	if err := w.Web.Members.Remove(t.Context(), owner, a.ID, members[0].ID); err != nil {
		t.Fatal(err)
	}
	wants(t, again.Get("/t/keys"), http.StatusSeeOther)
	_, got = signIn(t, w, "admin@a.example", password)
	wants(t, got, http.StatusUnprocessableEntity)
}

func TestSignIn_WrongPasswordsAreCountedAndAllLookTheSame(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	join(t, w, a, "kim@a.example", console.RoleTenantAdmin)
	_, known := signIn(t, w, "kim@a.example", "not the password")
	_, nobody := signIn(t, w, "nobody@a.example", "not the password")
	if known.StatusCode != http.StatusUnprocessableEntity || known.StatusCode != nobody.StatusCode ||
		strings.ReplaceAll(known.Text, "kim@", "") != strings.ReplaceAll(nobody.Text, "nobody@", "") {
		t.Errorf("%d and %d, or other texts", known.StatusCode, nobody.StatusCode)
	}
	for range 12 {
		if _, got := signIn(t, w, "kim@a.example", "not the password"); got.StatusCode == http.StatusTooManyRequests {
			if got.Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			return
		}
	}
	t.Error("guessing is not stopped")
}

func TestInvite_B5_AcceptedFiftyTimesAtOnceMakesOneMember(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	invited, err := w.Web.Members.Invite(t.Context(), w.Actor(console.RoleOwner), a.ID, console.NewInvitation{Email: "kim@a.example", Role: console.RoleTenantAdmin})
	if err != nil {
		t.Fatal(err)
	}
	var won atomic.Int32
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if _, err := w.Web.Members.Accept(t.Context(), invited.Secret, fmt.Sprint("Kim ", i), password, "192.0.2.1"); err == nil {
				won.Add(1)
			}
		})
	}
	all.Wait()
	members, _, err := w.Web.Members.List(t.Context(), w.Actor(console.RoleOwner), a.ID)
	if err != nil || won.Load() != 1 || len(members) != 1 {
		t.Errorf("%d accepted, %d members (%v)", won.Load(), len(members), err)
	}
	wants(t, w.Anonymous(t).Get("/t/invite/"+invited.Secret), http.StatusNotFound, "was used already")
}

func TestInvite_IsGoodForSevenDaysAndCanBeTakenBack(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	owner := w.Actor(console.RoleOwner)
	invite := func(email string) console.Invited {
		i, err := w.Web.Members.Invite(t.Context(), owner, a.ID, console.NewInvitation{Email: email, Role: console.RoleTenantViewer})
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	first, second := invite("kim@a.example"), invite("kim@a.example") // takes the first one's place
	back := invite("lee@a.example")
	if err := w.Web.Members.RevokeInvitation(t.Context(), owner, a.ID, back.Invitation.ID); err != nil {
		t.Fatal(err)
	}
	c := w.Anonymous(t)
	for _, i := range []console.Invited{first, back} {
		wants(t, c.Get("/t/invite/"+i.Secret), http.StatusNotFound)
	}
	for body, want := range map[string]string{"name=&password=" + url.QueryEscape(password): "must not be empty", "name=Kim&password=elevenchars": "Between 12"} {
		f, _ := url.ParseQuery(body)
		wants(t, c.Post("/t/invite/"+second.Secret, f), http.StatusUnprocessableEntity, want)
	}
	w.Advance(7*24*time.Hour + time.Second)
	wants(t, c.Post("/t/invite/"+second.Secret, url.Values{"name": {"Kim"}, "password": {password}}), http.StatusNotFound)
	for _, secret := range []string{"x", strings.Repeat("A", 26), strings.Repeat("A", 2000)} {
		wants(t, c.Get("/t/invite/"+secret), http.StatusNotFound)
	}
}

func TestLink_B5_UsedFiftyTimesAtOnceSignsInOnce(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	api := w.API(t, console.RoleKeyAdmin)
	made := api.JSON(http.MethodPost, "/api/v1/tenants/"+a.ID+"/sign-in-links", `{"external_user":"u-17","name":"Kim","role":"tenant-viewer","ttl":"60s"}`)
	wants(t, made, http.StatusCreated, `"url":"`+webtest.Origin+`/t/link/`, `"external_user":"u-17"`)
	path := strings.TrimPrefix(between(made.Text, `"url":"`, `"`), webtest.Origin)
	for range 3 { // programs that look at links use nothing up
		wants(t, w.Anonymous(t).Get(path), http.StatusOK, "Continue")
	}
	var won atomic.Int32
	var all sync.WaitGroup
	for range 50 {
		c := w.Anonymous(t)
		all.Go(func() {
			if got := c.Post(path, nil); got.StatusCode == http.StatusSeeOther && c.Get("/t").StatusCode == http.StatusOK {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d signed in", won.Load())
	}
	// The same person gets the same account; another time, and too late.
	again := api.JSON(http.MethodPost, "/api/v1/tenants/"+a.ID+"/sign-in-links", `{"external_user":"u-17","role":"tenant-admin","ttl":"60s"}`)
	wants(t, again, http.StatusCreated, `"role":"tenant-viewer"`)
	w.Advance(61 * time.Second)
	wants(t, w.Anonymous(t).Post(strings.TrimPrefix(between(again.Text, `"url":"`, `"`), webtest.Origin), nil), http.StatusNotFound)
	for _, body := range []string{`{"role":"tenant-viewer"}`, `{"email":"x","role":"tenant-viewer"}`, `{"email":"a@b.example","role":"owner"}`, `{"email":"a@b.example","role":"tenant-viewer","ttl":"1h"}`, `{"email":"a@b.example","role":"tenant-viewer","ttl":"59s"}`} {
		wants(t, api.JSON(http.MethodPost, "/api/v1/tenants/"+a.ID+"/sign-in-links", body), http.StatusUnprocessableEntity)
	}
	wants(t, w.API(t, console.RoleViewer).JSON(http.MethodPost, "/api/v1/tenants/"+a.ID+"/sign-in-links", `{"external_user":"u","role":"tenant-viewer"}`), http.StatusForbidden)
}

func between(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	s, _, _ = strings.Cut(s, to)
	return s
}

func TestMembers_B5_TheLastAdminStaysUnderFiftyRemovals(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	join(t, w, a, "one@a.example", console.RoleTenantAdmin)
	join(t, w, a, "two@a.example", console.RoleTenantAdmin)
	members, _, err := w.Web.Members.List(t.Context(), w.Actor(console.RoleOwner), a.ID)
	if err != nil || len(members) != 2 {
		t.Fatal(members, err)
	}
	var all sync.WaitGroup
	for i := range 50 {
		m := members[i%2]
		all.Go(func() {
			actor := members[(i+1)%2].Actor("192.0.2.1", "test")
			if i%4 < 2 {
				_ = w.Web.Members.Remove(t.Context(), actor, a.ID, m.ID)
			} else {
				_ = w.Web.Members.SetRole(t.Context(), actor, a.ID, m.ID, console.RoleTenantViewer)
			}
		})
	}
	all.Wait()
	left, _, err := w.Web.Members.List(t.Context(), w.Actor(console.RoleOwner), a.ID)
	admins := 0
	for _, m := range left {
		if m.Role == console.RoleTenantAdmin {
			admins++
		}
	}
	if err != nil || admins != 1 {
		t.Errorf("%d admins are left (%v)", admins, err)
	}
}

func TestMembers_InviteChangeAndRemoveByThePages(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	c := join(t, w, a, "admin@a.example", console.RoleTenantAdmin)
	wants(t, c.Post("/t/members", url.Values{"email": {"nonsense"}, "role": {"tenant-viewer"}}), http.StatusUnprocessableEntity, "not an e-mail")
	wants(t, c.Post("/t/members", url.Values{"email": {"x@a.example"}, "role": {"owner"}}), http.StatusUnprocessableEntity)
	wants(t, c.Post("/t/members", url.Values{"email": {"ADMIN@a.example"}, "role": {"tenant-viewer"}}), http.StatusUnprocessableEntity, "member already")
	made := c.Post("/t/members", url.Values{"email": {"lee@a.example"}, "role": {"tenant-viewer"}})
	wants(t, made, http.StatusCreated, webtest.Origin+"/t/invite/")
	path := "/t/invite/" + between(made.Text, webtest.Origin+"/t/invite/", "<")
	if strings.Contains(c.Get("/t/members").Text, path) {
		t.Error("the link is shown again")
	}
	lee := w.Anonymous(t)
	wants(t, lee.Post(path, url.Values{"name": {"Lee"}, "password": {password}}), http.StatusSeeOther)
	page := c.Get("/t/members").Text
	id := "mem_" + between(page[strings.Index(page, "Lee"):], "/t/members/mem_", "/")
	wants(t, c.Post("/t/members/"+id+"/role", url.Values{"role": {"tenant-admin"}}), http.StatusSeeOther)
	wants(t, lee.Get("/t"), http.StatusSeeOther)
	wants(t, c.Post("/t/members/"+id+"/remove", nil), http.StatusSeeOther)
	if strings.Contains(c.Get("/t/members").Text, "Lee") {
		t.Error("who was removed is listed")
	}
}

func TestAsks_SmallOnesAreGrantedByRuleAndTheRestWaits(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	owner := w.Actor(console.RoleOwner)
	c := join(t, w, a, "admin@a.example", console.RoleTenantAdmin)
	ask := func(limit, factor, length string) webtest.Answer {
		return c.Post("/t/asks", url.Values{"limit": {limit}, "factor": {factor}, "for": {length}, "why": {"a sale"}})
	}
	wants(t, ask("plan.requests", "1500", "168h"), http.StatusSeeOther)
	wants(t, c.Get("/t/asks"), http.StatusOK, "granted", "Granted at once")
	limits, err := w.Web.Overrides.Effective(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	if l, _ := limits.Find("plan.requests"); l.Now().Value.Rate != "9000/minute" && !strings.Contains(l.Now().Text, "9000") {
		t.Errorf("plan.requests is %+v", l.Now())
	}
	// A boost is there: a rule puts no other in its place. Too much, too long and for good wait too.
	for _, in := range [][3]string{{"plan.requests", "1500", "24h"}, {"route:report.reports", "3000", "24h"}, {"route:report.reports", "1500", "720h"}, {"route:report.reports", "1500", "0s"}} {
		wants(t, ask(in[0], in[1], in[2]), http.StatusSeeOther)
	}
	waiting, err := w.Web.Asks.List(t.Context(), owner, "", true)
	if err != nil || len(waiting) != 4 {
		t.Fatalf("%d wait (%v)", len(waiting), err)
	}
	for _, in := range [][3]string{{"nothing", "1500", "24h"}, {"global.all", "1500", "24h"}, {"plan.requests", "1000", "24h"}, {"plan.requests", "500", "24h"}, {"plan.requests", "x", "24h"}, {"plan.requests", "1500", "1s"}} {
		wants(t, ask(in[0], in[1], in[2]), http.StatusUnprocessableEntity)
	}
	// An operator decides, once.
	op := w.As(t, console.RoleKeyAdmin)
	wants(t, op.Get("/asks"), http.StatusOK, "Acme taint-a", "a sale")
	wants(t, op.Post("/asks/"+waiting[1].ID+"/grant", url.Values{"answer": {"fine"}}), http.StatusSeeOther)
	wants(t, op.Post("/asks/"+waiting[1].ID+"/refuse", url.Values{"answer": {"no"}}), http.StatusConflict)
	wants(t, op.Post("/asks/"+waiting[0].ID+"/refuse", url.Values{"answer": {""}}), http.StatusUnprocessableEntity)
	wants(t, op.Post("/asks/"+waiting[0].ID+"/refuse", url.Values{"answer": {"ask for an override"}}), http.StatusSeeOther)
	wants(t, w.As(t, console.RoleViewer).Post("/asks/"+waiting[2].ID+"/grant", nil), http.StatusForbidden)
	wants(t, c.Get("/t/asks"), http.StatusOK, "ask for an override", "fine")
	// What would shorten or lessen a boost is not granted by an operator either.
	last := waiting[3]
	if last.Limit != "plan.requests" {
		t.Fatalf("%+v", last)
	}
	wants(t, op.Post("/asks/"+last.ID+"/grant", nil), http.StatusConflict, "larger or lasts longer")
}

func TestAsks_RuleGrantsNoMoreThanItsNumberUnderFiftyAtOnce(t *testing.T) {
	t.Parallel()
	w, a, _ := world(t)
	c := join(t, w, a, "admin@a.example", console.RoleTenantAdmin)
	_ = c
	members, _, err := w.Web.Members.List(t.Context(), w.Actor(console.RoleOwner), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	actor := members[0].Actor("192.0.2.1", "test")
	limits := []string{"plan.requests", "route:report.reports", "route:graphql.points", "plan.quota"}
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			_, _ = w.Web.Asks.Ask(t.Context(), actor, console.NewAsk{Limit: limits[i%4], FactorMilli: 1500, For: 24 * time.Hour, Why: "x"})
		})
	}
	all.Wait()
	list, err := w.Web.Asks.List(t.Context(), actor, a.ID, false)
	granted, open := 0, 0
	for _, k := range list {
		if k.State == console.AskGranted {
			granted++
		} else {
			open++
		}
	}
	if err != nil || granted != console.DefaultPortalRules().AskMonthly || open > console.MaxOpenAsks {
		t.Errorf("%d granted, %d open (%v)", granted, open, err)
	}
}
