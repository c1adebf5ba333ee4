package console

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/usage"
)

// An older gateway, or whoever writes its report, may tell a credential as it is.
func TestLockouts_A16_CredentialsAreHiddenFromEveryRole(t *testing.T) {
	t.Parallel()
	key := "hg_test_000000000000_000000000000000000000000000000002zIGxN"
	spelled := func(name, value string) usage.RefusedRow {
		s := string(rune(len(name))) + name + "\x01" + string(rune(len(value))) + value
		return usage.RefusedRow{Kind: "d", Subject: usage.RawBytes(s)}
	}
	for name, value := range map[string]string{"body:password": "hunter2hunter2", "header:Authorization": "Basic cm9vdDpodW50ZXIy", "header:X-Client": key} {
		row := spelled(name, value)
		masked, _ := maskSubject(row)
		if full := subjectText(row); !strings.HasPrefix(full, name+"=") || strings.Contains(full, value) || strings.Contains(masked, value) {
			t.Errorf("%s: %q, masked %q", name, full, masked)
		}
	}
	if got := subjectText(spelled("body:username", "ann")); got != "body:username=ann" {
		t.Errorf("a name that is no credential: %q", got)
	}
}
