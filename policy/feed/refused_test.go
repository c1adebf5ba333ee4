package feed

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// refusedReport is what a replica tells of one refused subject.
func refusedReport(t testing.TB, replica string) []byte {
	t.Helper()
	c := usage.NewRefusedCounter(replica, "b")
	c.Add("l", &usage.Refused{Row: usage.RefusedRow{Kind: "i", Subject: "192.0.2.1"}, Part: "rate", Cost: 1}, 1_000_000)
	r := c.Report(1_000_000)
	body, err := usage.EncodeRefused(&r)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestRefused_AGatewayTellsTheConsoleAndItEndsByItself(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rep, err := NewReporter(Config{Client: r.asGateway(), Deployment: deployment})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"gw_a", "gw_b"} {
		if err := rep.SendRefused(t.Context(), id, refusedReport(t, id)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := r.pub.Refused(t.Context(), []string{"gw_b", "gw_gone", "gw_a"})
	if err != nil || len(got) != 2 || got[0].Replica != "gw_b" || got[1].Limits[0].Subjects[0].Row.Subject != "192.0.2.1" {
		t.Errorf("%+v, %v", got, err)
	}
	if ttl := r.client.PTTL(t.Context(), "hg:usage:refused:gw_a").Val(); ttl <= 0 || ttl > 2*time.Minute {
		t.Errorf("raw subjects are kept for %v", ttl)
	}
	if got, err := r.pub.Refused(t.Context(), nil); got != nil || err != nil {
		t.Errorf("of nobody: %v, %v", got, err)
	}
}

// TestRefused_NonsenseIsLeftOut: whoever may write to hg:usage:* may write anything.
func TestRefused_NonsenseIsLeftOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for key, value := range map[string]string{"gw_text": "nonsense", "gw_other": string(refusedReport(t, "gw_a")), "gw_large": strings.Repeat("x", usage.MaxRefusedBody+1000), "gw_empty": ""} {
		r.do("SET", "hg:usage:refused:"+key, value)
	}
	r.do("LPUSH", "hg:usage:refused:gw_list", "x")
	r.do("SET", "hg:usage:refused:gw_a", string(refusedReport(t, "gw_a")))
	got, err := r.pub.Refused(t.Context(), []string{"gw_text", "gw_other", "gw_large", "gw_empty", "gw_list", "gw_a"})
	if err != nil || len(got) != 1 || got[0].Replica != "gw_a" {
		t.Errorf("%+v, %v", got, err)
	}
	rep, err := NewReporter(Config{Client: r.client, Deployment: deployment})
	if err != nil {
		t.Fatal(err)
	}
	for id, body := range map[string][]byte{"": refusedReport(t, "gw_a"), "gw_a": nil, strings.Repeat("a", 65): refusedReport(t, "gw_a"), "gw_b": make([]byte, usage.MaxRefusedBody+1)} {
		if err := rep.SendRefused(t.Context(), id, body); err == nil {
			t.Errorf("replica %.10q, %d bytes were taken", id, len(body))
		}
	}
}

// TestForgetRefusals_ReachesADirectoryAndDropsNoRecord: a change that concerns no record
// moves the place like any other.
func TestForgetRefusals_ReachesADirectoryAndDropsNoRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	filled := r.fill("e1", r.keyRecord("k1", 1, policy.KeyActive), r.tenantRecord("ten_a", 1, policy.TenantActive))
	told := make(chan string, 100)
	d := r.directory("", rarely, func(c *DirectoryConfig) {
		c.OnRecord = func(kind policy.RecordKind, id string) { told <- string(kind) + " " + id }
	})
	start(t, d.Run)
	d.untilPlace(t, filled) // where it drops whatever it had
	if d.state("k1") != "active" {
		t.Fatal("the key is not known")
	}
	misses := d.Stats().Misses
	place, err := r.pub.ForgetRefusals(t.Context(), []int{7, 1023})
	if err != nil || place.Epoch != "e1" {
		t.Fatalf("%+v, %v", place, err)
	}
	d.untilPlace(t, place)
	var got []string
	for len(got) < 2 {
		if text := <-told; strings.HasPrefix(text, string(RecordRefusals)) {
			got = append(got, text)
		}
	}
	if got[0] != "refusals 7" || got[1] != "refusals 1023" {
		t.Errorf("%q", got)
	}
	if d.state("k1") != "active" || d.Stats().Misses != misses {
		t.Errorf("records were dropped: %+v", d.Stats())
	}
}
