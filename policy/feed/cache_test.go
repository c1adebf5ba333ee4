package feed

import (
	"testing"

	"github.com/headgate/headgate/policy"
)

func newTestCache(t *testing.T, entries int) *cache {
	t.Helper()
	c, err := newCache(entries, newJournal(false))
	if err != nil {
		t.Fatal(err)
	}
	c.badFound = func(recordID, error) {}
	return c
}

func keyOf(kid string) recordID { return recordID{policy.RecordKey, kid} }

func recordOf(kid string, seq int64) *record {
	return &record{signed: policy.SignedRecord{Kind: policy.RecordKey, ID: kid, Seq: seq}}
}

// look is a whole lookup of one caller.
func look(c *cache, kid string, o outcome) (*record, error) {
	f, _ := c.join(keyOf(kid))
	c.asking(f)
	c.settle(keyOf(kid), f, o)
	return f.rec, f.err
}

func TestCache_AnAnswerThatAChangeOvertookIsWorthless(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*cache){
		"the record changed": func(c *cache) { c.drop(keyOf("k1"), 1) },
		"the trail was lost": func(c *cache) { c.dropAll(policy.Place{Epoch: "e1"}, false) },
		"another copy":       func(c *cache) { c.dropAll(policy.Place{Epoch: "e2"}, true) },
	} {
		for answer, o := range map[string]outcome{"a record": {rec: recordOf("k1", 1)}, "none": {unknown: true}} {
			c := newTestCache(t, 10)
			f, leader := c.join(keyOf("k1"))
			if !leader {
				t.Fatal("somebody else leads")
			}
			c.asking(f)
			change(c)
			if c.settle(keyOf("k1"), f, o) {
				t.Errorf("%s, answer %s: it counted", name, answer)
			}
			if rec, unknown := c.get(keyOf("k1")); rec != nil || unknown {
				t.Errorf("%s, answer %s: it was remembered", name, answer)
			}
			c.asking(f) // asked again, after the change
			if !c.settle(keyOf("k1"), f, o) {
				t.Errorf("%s, answer %s: the second answer did not count", name, answer)
			}
		}
	}
}

func TestCache_ARecordThatCameAlongIsTakenOnlyWhenNothingChanged(t *testing.T) {
	t.Parallel()
	c := newTestCache(t, 10)
	f, _ := c.join(keyOf("k1"))
	changes := c.asking(f)
	c.drop(keyOf("other"), 1)
	c.offer(keyOf("k2"), recordOf("k2", 1), changes)
	if rec, _ := c.get(keyOf("k2")); rec != nil {
		t.Fatal("a record that may be older than a change was taken")
	}
	c.offer(keyOf("k2"), recordOf("k2", 1), c.asking(f))
	if rec, _ := c.get(keyOf("k2")); rec == nil {
		t.Fatal("a record was not taken although nothing changed")
	}
	c.fail(keyOf("k1"), f)
}

func TestCache_LaterCallersDoNotJoinALookupThatHasEnded(t *testing.T) {
	t.Parallel()
	c := newTestCache(t, 10)
	f, _ := c.join(keyOf("k1"))
	if g, leader := c.join(keyOf("k1")); g != f || leader {
		t.Fatal("the second caller does not join")
	}
	c.fail(keyOf("k1"), f)
	select {
	case <-f.done:
	default:
		t.Fatal("the lookup has not ended")
	}
	if g, leader := c.join(keyOf("k1")); g == f || !leader {
		t.Fatal("a later caller joins a lookup that failed")
	}
}

func TestCache_FloorsHoldWithinAnEpoch(t *testing.T) {
	t.Parallel()
	c := newTestCache(t, 10)
	if _, err := look(c, "k1", outcome{rec: recordOf("k1", 5)}); err != nil {
		t.Fatal(err)
	}
	c.drop(keyOf("k1"), 1)
	c.dropAll(policy.Place{Epoch: "e1"}, false)
	if rec, err := look(c, "k1", outcome{rec: recordOf("k1", 4)}); rec != nil || err == nil {
		t.Fatalf("sequence 4 after 5: %+v, %v", rec, err)
	}
	if rec, err := look(c, "k1", outcome{rec: recordOf("k1", 5)}); rec == nil || err != nil {
		t.Fatalf("sequence 5 again: %+v, %v", rec, err)
	}
	c.dropAll(policy.Place{Epoch: "e2"}, true)
	if rec, err := look(c, "k1", outcome{rec: recordOf("k1", 1)}); rec == nil || err != nil {
		t.Fatalf("sequence 1 in a new epoch: %+v, %v", rec, err)
	}
}

func TestCache_CountsLiveEntriesRight(t *testing.T) {
	t.Parallel()
	c := newTestCache(t, 3)
	for _, kid := range []string{"k1", "k2", "k1", "k3", "k4", "k5"} {
		if _, err := look(c, kid, outcome{rec: recordOf(kid, 1)}); err != nil {
			t.Fatal(err)
		}
	}
	if n, _ := c.sizes(); n != 3 {
		t.Fatalf("%d live, want the 3 that fit", n)
	}
	c.drop(keyOf("k5"), 1)
	c.drop(keyOf("k5"), 2)
	if n, _ := c.sizes(); n != 2 {
		t.Fatalf("%d live after a drop, want 2", n)
	}
	c.dropAll(policy.Place{}, false)
	if n, _ := c.sizes(); n != 0 {
		t.Fatalf("%d live after all were dropped", n)
	}
	if _, err := look(c, "k5", outcome{rec: recordOf("k5", 2)}); err != nil {
		t.Fatal(err)
	}
	if n, _ := c.sizes(); n != 1 {
		t.Fatalf("%d live, want 1", n)
	}
}
