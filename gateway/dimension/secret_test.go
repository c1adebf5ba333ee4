package dimension

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/policy"
)

// Subjects are told to the console and kept in Redis for a while.
func TestEncode_A16_HoldsNoCredential(t *testing.T) {
	t.Parallel()
	const value = "hg_live_abcdefghijkl_0123456789abcdef0123456789abcdef012345"
	for _, c := range []struct{ per, value string }{
		{"header:Authorization", "Basic cm9vdDpodW50ZXIy"}, {"body:password", "hunter2"}, {"header:X-Client", value}, {"body:username", "x " + value},
	} {
		d := policy.Per(c.per).Dimensions()[0]
		one := []Part{{Dimension: d, State: Present, Value: c.value}}
		other := []Part{{Dimension: d, State: Present, Value: c.value + "x"}}
		if strings.Contains(Subject(one, Part{}), c.value) {
			t.Errorf("%s: the subject holds %q", c.per, c.value)
		}
		if Encode(one) == Encode(other) || Encode(one) != Encode(one) {
			t.Errorf("%s: values are not told apart any more", c.per)
		}
	}
}
