package main

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/web/api"
	"github.com/headgate/headgate/web/webtest"
)

// desk is a console over TLS with three gateways, and a folder with a policy.
type desk struct {
	t    *testing.T
	w    *webtest.World
	url  string
	ca   string // file
	dir  string
	file string // policy.yaml
	role console.Role
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	w := webtest.New(t)
	w.Feed.Gateways(3)
	srv := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		r.Host = strings.TrimPrefix(webtest.Origin, "https://")
		w.Handler.ServeHTTP(rw, r)
	}))
	t.Cleanup(srv.Close)
	dir, file := folder(t, somePolicy, "")
	ca := filepath.Join(t.TempDir(), "ca.pem")
	put(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})))
	return &desk{t: t, w: w, url: srv.URL, ca: ca, dir: dir, file: file, role: console.RoleOwner}
}

// as is the desk of somebody with another role.
func (d *desk) as(role console.Role) *desk {
	other := *d
	other.role = role
	return &other
}

// ends runs `headgate policy …` against the console.
func (d *desk) ends(status int, args []string, words ...string) string {
	d.t.Helper()
	token := filepath.Join(d.t.TempDir(), "token")
	put(d.t, token, d.w.Tokens[d.role]+"\n")
	all := append([]string{"policy"}, args...)
	all = append(all, "--console-url", d.url, "--token-file", token, "--console-ca-file", d.ca, "--retry=0s")
	return ends(d.t, status, all, words...)
}

// first publishes the policy as v1 and notes it in the file.
func (d *desk) first() {
	d.t.Helper()
	d.ends(0, []string{"publish", d.file, "--wait"}, "v1 is stored.", "3 of 3 gateways enforce v1 after")
	d.ends(0, []string{"pull", d.file}, "policy.yaml: v1")
}

// edit changes the file.
func (d *desk) edit(old, replacement string) {
	d.t.Helper()
	put(d.t, d.file, with(read(d.t, d.file), old, replacement))
}

func TestPolicyPull_NotesTheBaseAndOverwritesNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.ends(1, []string{"pull", d.file}, "nothing has been published yet")
	d.ends(1, []string{"diff", "live"}, "there is no version in force")
	d.first()
	if text := read(t, d.file); text != "# headgate: base v1\n"+somePolicy {
		t.Errorf("a file with the same meaning lost its comments:\n%s", text)
	}
	fresh := filepath.Join(d.dir, "fresh.yaml")
	d.ends(0, []string{"pull", fresh})
	if text := read(t, fresh); !strings.HasPrefix(text, "# headgate: base v1\napiVersion: headgate/v1\n") {
		t.Errorf("pulled:\n%s", text)
	}
	if out := d.ends(0, []string{"pull", "-"}); !strings.HasPrefix(out, "apiVersion:") {
		t.Errorf("printed:\n%s", out)
	}
	d.edit("burst: 60}]", "burst: 50}]")
	d.ends(1, []string{"pull", d.file}, "has another content than v1", "--merge", "--force")
	d.ends(0, []string{"pull", d.file, "--force"})
	if strings.Contains(read(t, d.file), "burst: 50}]") {
		t.Error("--force did not overwrite the file")
	}
	d.ends(1, []string{"pull", d.file, "--number=7"}, "there is no v7")
	d.ends(1, []string{"pull", d.file, "--number=1", "--draft=drf_a"}, "only one of them")
}

func TestPolicyPublish_PublishesWhatChangesAndNotesIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	d.ends(0, []string{"publish", d.file, "--wait"}, "Nothing changes.", "v1 has this content already.", "3 of 3 gateways")
	d.edit("burst: 60}]", "burst: 50}]")
	d.ends(0, []string{"publish", d.file, "--dry-run"}, "burst: 60 → 50 (tighter)")
	d.ends(0, []string{"diff", d.file}, "burst: 60 → 50 (tighter)")
	out := d.ends(0, []string{"publish", d.file, "--wait", "--note=less", "--json"})
	var got publishedReport
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Version != 2 || len(got.Changes) != 1 || got.Publication == nil || !got.Publication.Done || got.Publication.On != 3 {
		t.Errorf("%v: %s", err, out)
	}
	if text := read(t, d.file); !strings.HasPrefix(text, "# headgate: base v2\n# what anna is owed\n") {
		t.Errorf("the file is not based on what was published:\n%s", text)
	}
	d.ends(0, []string{"diff", "v1", "v2"}, "burst: 60 → 50")
	d.ends(0, []string{"rollback", "v1", "--wait"}, "burst: 50 → 60 (looser)", "v3 is stored, with the content of v1.", "3 of 3 gateways enforce v3")
	d.ends(1, []string{"rollback", "9"}, "there is no v9")
	d.ends(1, []string{"rollback", "v0x"}, "must be a version's number")
	d.as(console.RoleViewer).ends(1, []string{"rollback", "2"}, "Your role does not allow this.")
}

func TestPolicyPublish_RefusesAStaleBaseAndSaysWhatWasPublishedSince(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	other := filepath.Join(d.dir, "other.yaml")
	put(t, other, with(read(t, d.file), "rate: 60/minute, burst: 60}}", "rate: 90/minute, burst: 60}}"))
	d.ends(0, []string{"publish", other})
	d.edit("burst: 60}]", "burst: 50}]")
	d.ends(1, []string{"publish", d.file}, "Published since v1:", "90/minute", "v2 is in force now")
	d.ends(0, []string{"pull", d.file, "--merge"}, "v2, and what was changed since v1")
	if text := read(t, d.file); !strings.Contains(text, "90/minute") || !strings.Contains(text, "burst: 50") || originOf([]byte(text)).base != 2 {
		t.Errorf("merged:\n%s", text)
	}
	d.ends(0, []string{"publish", d.file}, "v3 is stored.")
	// Both changed the same.
	put(t, other, with(somePolicy, "rate: 60/minute, burst: 60}]", "rate: 60/minute, burst: 45}]"))
	put(t, other, "# headgate: base v2\n"+read(t, other))
	d.ends(2, []string{"pull", other, "--merge"}, "both changed:", "the file's stayed", "look at them before you publish")
	put(t, other, somePolicy)
	d.ends(1, []string{"pull", other, "--merge"}, "does not say which version it was made from")
}

func TestPolicyPublish_BaseMayBeGiven(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.ends(0, []string{"publish", d.file}, "v1 is stored.") // the first needs none
	before := filepath.Join(d.dir, "before.yaml")
	put(t, before, somePolicy)
	d.edit("burst: 60}]", "burst: 55}]")
	d.ends(2, []string{"publish", d.file}, "does not say which version it was made from", "--base v1")
	d.ends(0, []string{"publish", d.file, "--base", before}, "v2 is stored.")
	d.edit("burst: 55}]", "burst: 50}]")
	d.ends(1, []string{"publish", d.file, "--base", before}, "its content is not that of", "somebody changed it elsewhere")
	d.ends(1, []string{"publish", d.file, "--base=1"}, "v2 is in force now")
	d.ends(0, []string{"publish", d.file, "--base=v2"}, "v3 is stored.")
	d.edit("burst: 50}]", "burst: 45}]")
	d.ends(0, []string{"publish", d.file, "--base=live"}, "v4 is stored.")
	if strings.Contains(read(t, d.file), "# headgate:") {
		t.Error("a file without a note was given one")
	}
}

func TestPolicyPublish_ProblemsTestsAndConfirmationsAreStatus2(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	tests := filepath.Join(d.dir, "policy.tests.yaml")
	put(t, tests, someTests)
	d.ends(0, []string{"publish", d.file}, "v2 is stored.") // tests alone are a change, too
	d.edit("burst: 60}]", "burst: 20}]")
	d.ends(2, []string{"publish", d.file}, "FAIL  the burst is what was bought", "plan.requests refused request 21")
	put(t, tests, with(someTests, "send: 60", "send: 20"))
	d.ends(2, []string{"publish", d.file}, "to confirm: --confirm cut-half=yes", "burst")
	out := d.ends(2, []string{"publish", d.file, "--json"})
	var p api.Problem
	if err := json.Unmarshal([]byte(out), &p); err != nil || p.Code != "confirmation-required" || len(p.Confirmations) != 1 {
		t.Errorf("%v: %s", err, out)
	}
	d.ends(0, []string{"publish", d.file, "--confirm", "cut-half=yes"}, "v3 is stored.")
	d.edit("motive: fairness", "motive: greed")
	d.ends(2, []string{"publish", d.file}, "policy.yaml:11: routes[0].motive", "has 1 problem")
	d.edit("motive: greed", "motive: quota")
	d.ends(2, []string{"publish", d.file, "--canary-count=9"}, "canary.count")
	d.ends(0, []string{"publish", d.file, "--no-tests"}, "v4 is stored.")
	if v, _, err := d.w.Web.Policies.Head(t.Context()); err != nil || v.Tests != "" {
		t.Errorf("%v, tests %q", err, v.Tests)
	}
	tenant, err := d.w.Web.Tenants.Create(t.Context(), d.w.Actor(console.RoleOwner), console.NewTenant{Name: "Acme", Plan: "free"})
	if err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(d.dir, "gone.yaml") // what only the console can know
	put(t, gone, strings.ReplaceAll(somePolicy, "free", "pro"))
	d.ends(2, []string{"publish", gone, "--base=live"}, "gone.yaml: plans: ", `plan "free" is dropped`)
	put(t, tests, with(someTests, "plan: free", "tenant: "+tenant.ID))
	d.ends(2, []string{"test", d.file, "--on-console"}, "FAIL  the burst is what was bought")
	d.edit("burst: 20}]", "burst: 60}]")
	d.ends(0, []string{"test", d.file, "--on-console"}, "1 of 1 test passed")
}

func TestPolicyPublish_NotEverywhereIsStatus3AndNamesWhoIsMissing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	d.w.Feed.Freeze(nil)
	d.edit("burst: 60}]", "burst: 50}]")
	d.ends(3, []string{"publish", d.file, "--wait", "--timeout=300ms"}, "v2 is stored.", "0 of 3 gateways enforce v2.", "gw_aaaaaaaaaaaaaaaa enforces v1", "3 of 3 gateways do not enforce it")
	d.w.Feed.Freeze(&policy.NACK{Version: 3, Code: policy.NACKBadDigest, Detail: "does not hash to it", Since: time.Now()})
	d.ends(3, []string{"rollback", "1", "--wait"}, "refuses v3: bad-digest: does not hash to it")
	d.edit("burst: 50}]", "burst: 45}]")
	d.ends(0, []string{"publish", d.file, "--base=live"}, "v4 is stored.") // nobody waits
	d.w.Feed.Down(true)
	d.edit("burst: 45}]", "burst: 40}]")
	d.ends(3, []string{"publish", d.file, "--wait", "--timeout=300ms"}, "v5 is stored.", "it is not known")
}

func TestPolicyPublish_CanaryWaitsForItsGatewaysAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	d.edit("burst: 60}]", "burst: 50}]")
	d.ends(0, []string{"publish", d.file, "--canary-count=1", "--canary-hold=10s", "--wait"}, "v2 is stored.", "1 of 1 gateways of the canary enforce v2")
	r, err := d.w.Web.Rollouts.Current(t.Context())
	if err != nil || r == nil || r.Version != 2 || len(r.Replicas) != 1 || r.Plan.Hold != 10*time.Second {
		t.Errorf("%v, %+v", err, r)
	}
	d.edit("burst: 50}]", "burst: 45}]")
	d.ends(1, []string{"publish", d.file, "--base=live"}, "promote or stop it first")
}

func TestPolicyPush_DraftsAreSavedApprovedAndPublished(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	rules := []console.ApprovalRule{{When: console.WhenAny, Approvals: 1}}
	if err := d.w.Web.Policies.SetApprovalRules(t.Context(), d.w.Actor(console.RoleOwner), rules); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(d.dir, "policy.tests.yaml"), with(someTests, "send: 60", "send: 50"))
	d.edit("burst: 60}]", "burst: 50}]")
	editor := d.as(console.RoleEditor)
	var first, second saved
	if err := json.Unmarshal([]byte(editor.ends(0, []string{"push", d.file, "--name=less", "--json"})), &first); err != nil || first.Name != "less" || first.Base != 1 || !strings.HasSuffix(first.URL, "/policy/drafts/"+first.Draft) {
		t.Fatalf("%v, %+v", err, first)
	}
	if o := originOf([]byte(read(t, d.file))); o.draft != first.Draft || o.etag != first.ETag {
		t.Errorf("noted %+v", o)
	}
	d.edit("motive: fairness", "motive: quota")
	if err := json.Unmarshal([]byte(editor.ends(0, []string{"push", d.file, "--json"})), &second); err != nil || second.Draft != first.Draft || second.ETag == first.ETag {
		t.Fatalf("%v, %+v", err, second)
	}
	draft, err := d.w.Web.Policies.GetDraft(t.Context(), first.Draft)
	if err != nil || strings.Contains(draft.Source, "headgate: base") || !strings.Contains(draft.Tests, "send: 50") {
		t.Errorf("%v:\n%s\n%s", err, draft.Source, draft.Tests)
	}
	d.ends(1, []string{"publish", d.file}, "approvals: 0 of 1 for any, because of")
	d.ends(1, []string{"publish", "--draft", first.Draft, "--dry-run"}, "Approvals are missing.")
	d.ends(1, []string{"publish", "--draft", first.Draft}, "approvals: 0 of 1 for any")
	ready, err := d.w.Web.Policies.Ready(t.Context(), d.w.Actor(console.RolePublisher), first.Draft)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.w.Web.Policies.Approve(t.Context(), d.w.Actor(console.RolePublisher), first.Draft, ready.Digest, ""); err != nil {
		t.Fatal(err)
	}
	d.ends(0, []string{"publish", "--draft", first.Draft, "--wait"}, "burst: 60 → 50", "v2 is stored.", "3 of 3 gateways enforce v2")
	editor.ends(1, []string{"push", d.file}, "was made from v1, and v2 is in force now")
	editor.ends(0, []string{"pull", d.file, "--merge"})
	editor.ends(1, []string{"push", d.file}, "it was published or deleted", "--new")
	editor.ends(0, []string{"push", d.file, "--new"})
}

func TestPolicyPush_AMergedFileBasesItsDraftAnew(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	d.edit("burst: 60}]", "burst: 50}]")
	d.ends(0, []string{"push", d.file})
	id := originOf([]byte(read(t, d.file))).draft
	other := filepath.Join(d.dir, "other.yaml")
	put(t, other, with(somePolicy, "rate: 60/minute, burst: 60}}", "rate: 90/minute, burst: 60}}"))
	d.ends(0, []string{"publish", other, "--base=live"})
	d.ends(1, []string{"push", d.file}, "was made from v1, and v2 is in force now")
	d.ends(0, []string{"pull", d.file, "--merge"})
	d.ends(0, []string{"push", d.file})
	draft, err := d.w.Web.Policies.GetDraft(t.Context(), id)
	if err != nil || draft.Base != 2 || !strings.Contains(draft.Source, "90/minute") || !strings.Contains(draft.Source, "burst: 50") {
		t.Errorf("%v, base v%d:\n%s", err, draft.Base, draft.Source)
	}
	if o := originOf([]byte(read(t, d.file))); o.base != 2 || o.draft != id || o.etag != draft.ETag {
		t.Errorf("noted %+v", o)
	}
}

func TestPolicyPush_C06_LostUpdatesAreKeptOut(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	d.ends(0, []string{"push", d.file})
	id := originOf([]byte(read(t, d.file))).draft
	copied := filepath.Join(d.dir, "copy.yaml")
	d.ends(0, []string{"pull", copied, "--draft", id})
	put(t, copied, with(read(t, copied), "burst: 60", "burst: 59"))
	d.ends(0, []string{"push", copied})
	d.edit("burst: 60}]", "burst: 58}]")
	d.ends(1, []string{"push", d.file}, "somebody changed the draft")
	draft, err := d.w.Web.Policies.GetDraft(t.Context(), id)
	if err != nil || !strings.Contains(draft.Source, "burst: 59") {
		t.Errorf("%v:\n%s", err, draft.Source)
	}
	d.ends(0, []string{"push", d.file, "--force"})
	d.edit("motive: fairness", "motive: greed")
	d.ends(2, []string{"push", d.file}, "routes[0].motive")
	d.ends(0, []string{"push", d.file, "--force"}) // a draft may have problems
	d.ends(2, []string{"push", d.file, "--draft=nonsense", "--force"}, "--draft must be a draft's id")
	d.as(console.RoleViewer).ends(1, []string{"push", d.file, "--force"}, "Your role does not allow this.")
}

func TestPolicySimulate_TellsWhoWouldBeRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	when := d.w.Now().Add(-time.Minute)
	b := &decisionlog.Batch{Replica: "gw_a", Boot: "b", Seq: 1, From: when.UnixMicro(), To: when.UnixMicro(), Sample: decisionlog.Whole}
	tenant, err := d.w.Web.Tenants.Create(t.Context(), d.w.Actor(console.RoleOwner), console.NewTenant{Name: "Acme", Plan: "free"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		b.Entries = append(b.Entries, decisionlog.Entry{
			Kind: decisionlog.KindDecision, At: when.UnixMicro(), Order: int32(i), Seq: int64(i + 1), Tenant: tenant.ID, IP: "203.0.113.7",
			Method: "GET", Host: "api.example", Path: "/", Route: "everything", Policy: 1, Cost: 1, Hits: 1, Allowed: true,
		})
	}
	d.w.Decisions.Add(b)
	d.edit("burst: 60}]", "burst: 50}]")
	d.ends(0, []string{"simulate", d.file}, "Replayed 60 decisions", "Newly refused: 10 requests of 1 tenant.", "plan.requests", "newly-refused", tenant.ID)
	d.ends(2, []string{"simulate", d.file, "--max-refused=9"}, "10 requests would be newly refused")
	d.ends(0, []string{"simulate", d.file, "--max-refused=10", "--from", when.Add(-time.Hour).UTC().Format(time.RFC3339)})
	d.ends(0, []string{"push", d.file})
	var got api.Trial
	out := d.ends(0, []string{"simulate", "--draft", originOf([]byte(read(t, d.file))).draft, "--json"})
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Result == nil || got.Result.NewlyRefused.Requests != 10 {
		t.Errorf("%v: %s", err, out)
	}
	d.ends(1, []string{"simulate", d.file, "--max-refused=10", "--from=2001-01-01T00:00:00Z", "--to=2001-01-02T00:00:00Z"}, "nothing was tried")
	d.ends(2, []string{"simulate", d.file, "--last=300h"}, "At most 7 days")
	d.ends(1, []string{"simulate", d.file, "--to=yesterday"}, "--to: must be a time", "--from: is needed")
	release := d.w.Decisions.Hold()
	defer release()
	d.ends(1, []string{"simulate", d.file, "--timeout=300ms"}, "is not done after 300ms")
}

func TestPolicyCommands_SayWhatIsWrongWithTheWayToTheConsole(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.first()
	ends(t, 1, []string{"policy", "pull", d.file, "--console-url=ftp://x", "--token=a"}, "--console-url: must be https://HOST[:PORT]")
	ends(t, 1, []string{"policy", "pull", d.file, "--console-url=" + d.url, "--token=hg_ops_x", "--console-ca-file=" + d.ca}, "API token")
	ends(t, 1, []string{"policy", "pull", d.file, "--console-url=" + d.url, "--token=x", "--retry=0s"}, "certificate")
	ends(t, 1, []string{"policy", "pull", d.file, "--console-url=http://127.0.0.1:1", "--token=x", "--retry=0s"}, "connection refused")
	ends(t, 1, []string{"policy", "pull", d.file, "--console-url=http://127.0.0.1:1", "--token=x", "--console-ca-file=" + d.file}, "holds no certificate")
}

func TestAPIClient_WaitsForAnEarlierAttemptOfItsOwn(t *testing.T) {
	t.Parallel()
	var keys []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		switch len(keys) {
		case 1: // done, and nobody hears of it
			panic(http.ErrAbortHandler)
		case 2:
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"code": "idempotency-conflict", "detail": "still running"}`))
		default:
			_, _ = w.Write([]byte(`{"version": 7}`))
		}
	}))
	defer srv.Close()
	p := publishing{client: &apiClient{base: srv.URL, http: srv.Client(), patience: 5 * time.Second}}
	out, err := p.post(t.Context(), "/", "", map[string]any{})
	if err != nil || out.Version != 7 || len(keys) != 3 || keys[0] == "" || keys[0] != keys[1] || keys[1] != keys[2] {
		t.Errorf("%v, %+v, keys %v", err, out, keys)
	}
}

func TestAPIClient_RepeatsWhatMayBeRepeatedAndHonoursRetryAfter(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1)%3 != 0 {
			w.Header().Set("Retry-After", "0")
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("ETag", `"e1"`)
		_, _ = w.Write([]byte(`{"version": 7}`))
	}))
	defer srv.Close()
	c := &apiClient{base: srv.URL, http: srv.Client(), patience: 5 * time.Second}
	var v api.Version
	if a, err := c.send(t.Context(), apiCall{method: "GET", path: "/"}, &v); err != nil || v.Version != 7 || a.etag != `"e1"` || calls.Load() != 3 {
		t.Errorf("get: %v, %+v after %d calls", err, a, calls.Load())
	}
	if _, err := c.send(t.Context(), apiCall{method: "POST", path: "/", key: "k"}, nil); err != nil || calls.Load() != 6 {
		t.Errorf("post with a key: %v after %d calls", err, calls.Load())
	}
	if err := c.do(t.Context(), "POST", "/", nil, nil); err == nil || calls.Load() != 7 {
		t.Errorf("post without a key: %v after %d calls", err, calls.Load())
	}
	c.patience = 0
	if err := c.do(t.Context(), "GET", "/", nil, nil); err == nil || calls.Load() != 8 {
		t.Errorf("get without patience: %v after %d calls", err, calls.Load())
	}
}
