package decisionlog_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/decisionlog"
)

func TestEntry_TheSubjectIsWhoeverLimitsAreSampledBy(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]decisionlog.Entry{
		"ten_a":     {Tenant: "ten_a", User: "u", ByUser: true, IP: "192.0.2.1"},
		"user:u":    {User: "u", ByUser: true, IP: "192.0.2.1"},
		"192.0.2.1": {User: "u", IP: "192.0.2.1"}, // the route knows callers by their address
		"user:":     {ByUser: true, IP: "192.0.2.1"},
		"":          {},
	} {
		if got := e.Subject(); got != want {
			t.Errorf("%+v: %q, want %q", e, got, want)
		}
	}
}

// TestEntry_BeforeIsAnOrder: of two entries at most one comes first, and what comes before
// something that comes before a third comes before the third.
func TestEntry_BeforeIsAnOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		few := func() decisionlog.Entry {
			small := func(name string) int64 { return rapid.Int64Range(0, 2).Draw(rt, name) }
			return decisionlog.Entry{At: small("at"), Order: int32(small("order")), Seq: small("seq")}
		}
		a, b, c := few(), few(), few()
		if a.Before(&b) && b.Before(&a) || a.Before(&b) && b.Before(&c) && !a.Before(&c) {
			rt.Fatalf("%+v, %+v, %+v", a, b, c)
		}
		same := a.At == b.At && a.Order == b.Order && a.Seq == b.Seq
		if !same && !a.Before(&b) && !b.Before(&a) {
			rt.Fatalf("neither of %+v and %+v comes first", a, b)
		}
	})
}

// TestEncode_TheSameBatchIsTheSameBytes, whatever the order in which maps are walked: a
// batch that is sent again is known again.
func TestEncode_TheSameBatchIsTheSameBytes(t *testing.T) {
	t.Parallel()
	values := map[string]string{}
	for i := range 8 {
		values[fmt.Sprintf("header:X-%d", i)] = fmt.Sprint("v", i%3)
	}
	b := &decisionlog.Batch{Replica: "a", Entries: []decisionlog.Entry{{Kind: decisionlog.KindDecision, Values: values}}}
	first := encode(t, b)
	for range 50 {
		if !bytes.Equal(encode(t, b), first) {
			t.Fatal("two encodings of one batch differ")
		}
	}
}

// TestTexts_ManyBatchesShareTexts, and what is kept for sharing is bounded: beyond it
// batches are read as before.
func TestTexts_ManyBatchesShareTexts(t *testing.T) {
	t.Parallel()
	var texts decisionlog.Texts
	for round := range 12 { // about 100 MiB of texts, of which 64 are kept
		b := &decisionlog.Batch{Replica: "gw_a", Boot: "boot"}
		for i := range 1000 {
			path := fmt.Sprintf("/%d/%d/%s", round, i, strings.Repeat("x", 8000))
			b.Entries = append(b.Entries, decisionlog.Entry{Kind: decisionlog.KindDecision, Tenant: "ten_a", Path: path})
		}
		r, err := texts.Open(encode(t, b))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; r.Next(); i++ {
			if e := r.Entry(); e.Path != b.Entries[i].Path || e.Tenant != "ten_a" {
				t.Fatalf("round %d, entry %d is %.40s of %s", round, i, e.Path, e.Tenant)
			}
		}
		if r.Err() != nil || r.Len() != 0 {
			t.Fatalf("%v, %d left", r.Err(), r.Len())
		}
	}
}

// TestReader_ValuesAreSharedByEntriesThatHaveTheSame: abuse limits see few values many
// times.
func TestReader_ValuesAreSharedByEntriesThatHaveTheSame(t *testing.T) {
	t.Parallel()
	b := &decisionlog.Batch{}
	for i := range 6 {
		b.Entries = append(b.Entries, decisionlog.Entry{Kind: decisionlog.KindDecision, Values: map[string]string{"body:username": fmt.Sprint(i % 2)}})
	}
	b.Entries = append(b.Entries, decisionlog.Entry{Kind: decisionlog.KindEnd})
	back, err := decisionlog.Decode(encode(t, b))
	if err != nil {
		t.Fatal(err)
	}
	same := func(i, j int) bool {
		return reflect.ValueOf(back.Entries[i].Values).Pointer() == reflect.ValueOf(back.Entries[j].Values).Pointer()
	}
	if !same(0, 2) || !same(1, 5) || same(0, 1) || back.Entries[6].Values != nil {
		t.Fatalf("values are %+v", back.Entries)
	}
}

// TestReader_TellsOfABatchWithoutReadingIt: what a collector needs stands in its head.
func TestReader_TellsOfABatchWithoutReadingIt(t *testing.T) {
	t.Parallel()
	b := traffic(3, 40)
	b.Sample, b.Dropped, b.Unjudged = 512, 7, 9
	body := encode(t, b)
	r, err := decisionlog.NewReader(body)
	if err != nil {
		t.Fatal(err)
	}
	head := r.Batch()
	want := *b
	want.Entries, want.Body = nil, body
	if !reflect.DeepEqual(head, want) || r.Len() != 40 {
		t.Fatalf("head is %+v of %d entries, want %+v", head, r.Len(), want)
	}
}
