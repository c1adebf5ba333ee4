package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestMistakes_AreAllToldAndTheLivePolicyGoesOn(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, "--gateways=1", exact)
	doc, mistakes := mistaken()
	before := d.MustAPI(http.StatusOK, http.MethodGet, "/api/v1/policy", nil)
	checked := d.MustAPI(http.StatusOK, http.MethodPost, "/api/v1/policy/validate", map[string]any{"document": doc})
	samePaths(t, "validate", checked, mistakes)
	refused := d.MustAPI(http.StatusUnprocessableEntity, http.MethodPost, "/api/v1/policy/publish",
		map[string]any{"document": doc, "base_version": before["version"], "note": "wrong"})
	samePaths(t, "publish", refused, mistakes)
	after := d.MustAPI(http.StatusOK, http.MethodGet, "/api/v1/policy", nil)
	if before["version"] != after["version"] || before["digest"] != after["digest"] {
		t.Errorf("version %v became %v", before["version"], after["version"])
	}
	a := d.Hit(0, quiet(t, d, "free").Key, "/v1/items")
	if a.Status != http.StatusOK || a.Header.Get("X-Headgate-Policy") != "v1" {
		t.Errorf("status %d by policy %q", a.Status, a.Header.Get("X-Headgate-Policy"))
	}
}

func samePaths(t *testing.T, call string, answer map[string]any, want []string) {
	t.Helper()
	var got []string
	list, _ := answer["problems"].([]any)
	for _, p := range list {
		p, _ := p.(map[string]any)
		if str(p, "message") == "" {
			t.Errorf("%s: a problem without a message: %v", call, p)
		}
		got = append(got, str(p, "path"))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: problems at %v, want %v", call, got, want)
	}
}

func TestMistakes_InTheAPIAreToldByFieldAndWriteNothing(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, "--gateways=1", exact)
	for _, c := range []struct {
		name   string
		body   any
		status int
		want   string
	}{
		{"no name", map[string]any{"plan": "free"}, http.StatusUnprocessableEntity, "name"},
		{"no such plan", map[string]any{"name": "X", "plan": "gold"}, http.StatusUnprocessableEntity, "plan"},
		{"unknown field", map[string]any{"name": "X", "plan": "free", "colour": "red"}, http.StatusUnprocessableEntity, "colour"},
		{"wrong type", map[string]any{"name": 7, "plan": "free"}, http.StatusUnprocessableEntity, "name"},
	} {
		a := d.API(http.MethodPost, "/api/v1/tenants", c.body)
		if a.Status != c.status || !strings.Contains(string(a.Body), c.want) {
			t.Errorf("%s: status %d: %s", c.name, a.Status, a.Body)
		}
		if kind := a.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/problem+json") {
			t.Errorf("%s: answered as %q", c.name, kind)
		}
	}
	list := d.MustAPI(http.StatusOK, http.MethodGet, "/api/v1/tenants?limit=100", nil)
	if tenants, _ := list["items"].([]any); len(tenants) != len(d.Tenants) {
		t.Errorf("%d tenants after refused calls, want %d", len(tenants), len(d.Tenants))
	}
}
