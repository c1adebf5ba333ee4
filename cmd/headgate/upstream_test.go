package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestEcho_TellsWhatItSawAndNoCredentials(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/v1/a%20b?x=1&status=503", strings.NewReader("12345"))
	r.Header.Set("Authorization", "Bearer hg_live_secret")
	r.Header.Set("X-Api-Key", "hg_live_secret")
	r.Header.Set("X-Headgate-Tenant", "ten_x")
	w := httptest.NewRecorder()
	echo(w, r)
	var got struct {
		Method, Path, Query string
		BodyBytes           int `json:"body_bytes"`
		Headers             map[string][]string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if w.Code != http.StatusServiceUnavailable || got.Method != "POST" || got.Path != "/v1/a%20b" || got.BodyBytes != 5 || got.Query != "x=1&status=503" {
		t.Errorf("status %d, %+v", w.Code, got)
	}
	if strings.Contains(w.Body.String(), "secret") {
		t.Error("a credential is echoed")
	}
	if got.Headers["X-Headgate-Tenant"][0] != "ten_x" {
		t.Errorf("headers %v", got.Headers)
	}
}

func TestEcho_ADelayEndsWithTheRequest(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	echo(w, httptest.NewRequest(http.MethodGet, "/?delay=1h", nil).WithContext(ctx))
	if w.Body.Len() != 0 {
		t.Errorf("answered %q to nobody", w.Body)
	}
}

func TestTraffic_SpreadsTenantsOverTheGateways(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]map[string]bool{} // key → gateway
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	handler := func(name string) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			if seen[key] == nil {
				seen[key] = map[string]bool{}
			}
			seen[key][name] = true
			if len(seen["one"]) == 2 && len(seen["two"]) == 2 {
				cancel()
			}
		})
	}
	a, b := httptest.NewServer(handler("a")), httptest.NewServer(handler("b"))
	defer a.Close()
	defer b.Close()
	plan, err := json.Marshal(trafficPlan{Gateways: []string{a.URL, b.URL, "http://127.0.0.1:1"}, Tenants: []trafficTenant{{"One", "one"}, {"Two", "two"}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, plan, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- (&trafficCmd{PlanFile: file}).Run(ctx) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Errorf("seen within a minute: %v", seen)
	}
}

func TestTraffic_TellsWhatIsWrongWithItsPlan(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"no JSON": "{", "no gateways": `{"tenants": []}`} {
		file := filepath.Join(t.TempDir(), "plan.json")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := (&trafficCmd{PlanFile: file}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "--plan-file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHabits_CallsAreMatchedByTheSamplePolicy(t *testing.T) {
	t.Parallel()
	for i, h := range habits() {
		if h.perSecond <= 0 || h.swing < 0 || h.swing >= 1 || len(h.calls) == 0 {
			t.Errorf("habit %d would never call, or never rest: %+v", i, h)
		}
		for _, c := range h.calls {
			if c.weight < 1 || !strings.HasPrefix(c.path, "/v1/") {
				t.Errorf("habit %d: %+v", i, c)
			}
		}
	}
}

func TestAPIClient_AProblemIsAnErrorWithItsText(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer tok" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("headers %v", r.Header)
		}
		if r.URL.Path == "/good" {
			_, _ = w.Write([]byte(`{"id": "x"}`))
			return
		}
		http.Error(w, `{"detail": "no such plan"}`, http.StatusUnprocessableEntity)
	}))
	defer srv.Close()
	c := &apiClient{base: srv.URL, token: "tok", http: srv.Client()}
	var out struct{ ID string }
	if err := c.do(t.Context(), http.MethodPost, "/good", map[string]int{"a": 1}, &out); err != nil || out.ID != "x" {
		t.Errorf("%+v, %v", out, err)
	}
	err := c.do(t.Context(), http.MethodPost, "/bad", map[string]int{}, nil)
	if err == nil || !strings.Contains(err.Error(), "422") || !strings.Contains(err.Error(), "no such plan") || strings.Contains(err.Error(), "tok") {
		t.Errorf("error %v", err)
	}
}

// TestMain lets this test binary be the program itself, to try run-as.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "run-as" {
		os.Exit(run(os.Args[1:], nil, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func TestRunAs_BecomesTheCommand(t *testing.T) {
	t.Parallel()
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 65534, 65534
	}
	cmd := exec.Command(os.Args[0], "run-as", "--uid="+strconv.Itoa(uid), "--gid="+strconv.Itoa(gid), "--", "/bin/sh", "-c", "id -u; echo $$ -x")
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if want := strconv.Itoa(uid) + "\n" + strconv.Itoa(cmd.Process.Pid) + " -x\n"; string(out) != want {
		t.Errorf("got %q, want %q: the user, and the same process", out, want)
	}
}
