package feed

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/policy"
)

// TestReplicas_NamesThatNoDatabaseKeepsAreLeftOut: one forged heartbeat must not keep
// those of the others from being noted.
func TestReplicas_NamesThatNoDatabaseKeepsAreLeftOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, _, err := r.reporter().Beat(t.Context(), policy.Heartbeat{ID: "gw_a", Boot: "b"}); err != nil {
		t.Fatal(err)
	}
	for id, boot := range map[string]string{
		"gw_nul": `b\u0000`, "gw_long": strings.Repeat("b", maxReplicaID+1), "gw_line": `b\n`, "gw_\x01": "b", "gw_ü": "b",
	} {
		r.do("ZADD", "hg:replica:index", 9e15, id)
		r.do("SET", "hg:replica:"+id, `{"id":"`+strings.ReplaceAll(id, "\x01", `\u0001`)+`","boot":"`+boot+`"}`)
	}
	got, err := r.pub.Replicas(t.Context())
	if err != nil || len(got) != 1 || got[0].ID != "gw_a" {
		t.Fatalf("%+v, %v", got, err)
	}
}
