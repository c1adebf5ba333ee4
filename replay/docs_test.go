package replay_test

import (
	"os"
	"strings"
	"testing"

	"github.com/headgate/headgate/replay"
)

// TestDocs_TheManualsTestsPass runs the suite of the policy's manual against the policy
// that stands before it there.
func TestDocs_TheManualsTestsPass(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/policy-format.md")
	if err != nil {
		t.Fatal(err)
	}
	var document, suite string
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		switch {
		case strings.HasPrefix(block, "apiVersion:") && document == "":
			document = block
		case strings.HasPrefix(block, "tests:") && suite == "":
			suite = block
		}
	}
	d, s := documentOf(t, document), suiteOf(t, suite)
	if report := s.Check(d); !report.OK() {
		t.Error(report.Error())
	}
	results, err := replay.Engine{}.Test(t.Context(), d, s, nil)
	if err != nil || len(results) == 0 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	for _, r := range results {
		if !r.Passed {
			t.Errorf("%s: %s", r.Name, r.Detail)
		}
	}
}
