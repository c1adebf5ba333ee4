package api_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/web/api"
)

func apiPage(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestDocs_EveryCodeOfAProblemIsInTheTable(t *testing.T) {
	t.Parallel()
	page := apiPage(t)
	for _, code := range []string{
		"invalid-policy", "invalid-tests", "tests-failed", "confirmation-required", "stale-base", "stale-draft", "idempotency-conflict", "approval-required",
		string(console.CodeInvalid), string(console.CodeNotFound), string(console.CodeConflict), string(console.CodeForbidden),
		string(console.CodeUnavailable), string(console.CodeUnauthenticated), string(console.CodeRateLimited),
	} {
		if !regexp.MustCompile(`(?m)^\| [45]\d\d \| ` + "`" + code + "`" + ` \|`).MatchString(page) {
			t.Errorf("docs/api.md has no row for %s", code)
		}
	}
}

// Every last part of a policy call is said somewhere, so that nobody has to guess it.
func TestDocs_EveryPolicyCallIsOnThePage(t *testing.T) {
	t.Parallel()
	var doc struct {
		Paths map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(api.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	page := apiPage(t)
	seen := 0
	for path := range doc.Paths {
		if !strings.HasPrefix(path, "/api/v1/policy") {
			continue
		}
		seen++
		last := path[strings.LastIndex(path, "/"):]
		if strings.HasPrefix(last, "/{") {
			continue
		}
		if !strings.Contains(page, last) {
			t.Errorf("docs/api.md does not name %s", path)
		}
	}
	if seen < 25 {
		t.Errorf("only %d policy calls", seen)
	}
}
