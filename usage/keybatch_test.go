package usage_test

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/usage"
)

func goodRow() usage.KeyRow {
	return usage.KeyRow{
		KID: kid, Network: "2001:db8:1::/48", Agent: "curl/8", FirstUsed: 10, LastUsed: 12, FirstRefused: 11, LastRefused: 13,
		Requests: 9, Limited: 2, Refused: 4,
	}
}

func goodBatch(rows ...usage.KeyRow) usage.KeyBatch {
	return usage.KeyBatch{Replica: "gw_a", Boot: "b", Seq: 7, From: 1, Through: 20, Started: 1, Final: true, Lost: 3, Rows: rows}
}

func TestKeyBatch_ComesBackAsItWasSent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := goodBatch()
		for range rapid.IntRange(0, 5).Draw(t, "rows") {
			r := usage.KeyRow{KID: rapid.StringMatching(`[0-9A-Za-z]{12}`).Draw(t, "kid"), Agent: usage.AgentOf(rapid.String().Draw(t, "agent"))}
			if r.Refused = rapid.Int64Range(0, 1<<39).Draw(t, "refused"); r.Refused > 0 {
				r.FirstRefused, r.LastRefused = 5, 5
			}
			used := rapid.Int64Range(0, 1<<39).Draw(t, "used")
			if r.Limited = rapid.Int64Range(0, used).Draw(t, "limited"); used > 0 {
				r.FirstUsed, r.LastUsed = 7, 9
			}
			if r.Requests = used + r.Refused; r.Requests > 0 {
				b.Rows = append(b.Rows, r)
			}
		}
		body, err := usage.EncodeKeys(&b)
		if err != nil {
			t.Fatal(err)
		}
		back, err := usage.DecodeKeys(body)
		if err != nil || fmt.Sprintf("%+v", *back) != fmt.Sprintf("%+v", b) {
			t.Fatalf("%+v came back as %+v, %v", b, back, err)
		}
	})
}

// packed is any JSON as a batch travels.
func packed(t testing.TB, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestDecodeKeys_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	bad := map[string][]byte{
		"nothing":       nil,
		"noise":         []byte("noise"),
		"not JSON":      packed(t, "x"),
		"too large":     make([]byte, usage.MaxKeyBody+1),
		"a bomb":        packed(t, `{"replica":"`+strings.Repeat(" ", 8<<20)+`"}`),
		"too many rows": nil,
	}
	rows := strings.Repeat(`{"k":"0123456789AB","q":1,"uf":1,"ul":1},`, usage.MaxKeyRows+1)
	bad["too many rows"] = packed(t, `{"replica":"a","boot":"b","seq":1,"rows":[`+strings.TrimSuffix(rows, ",")+`]}`)
	for name, change := range map[string]func(b *usage.KeyBatch, r *usage.KeyRow){
		"no replica":             func(b *usage.KeyBatch, _ *usage.KeyRow) { b.Replica = "" },
		"a replica in two lines": func(b *usage.KeyBatch, _ *usage.KeyRow) { b.Replica = "a\nb" },
		"a long boot":            func(b *usage.KeyBatch, _ *usage.KeyRow) { b.Boot = strings.Repeat("b", 65) },
		"no number":              func(b *usage.KeyBatch, _ *usage.KeyRow) { b.Seq = 0 },
		"a negative time":        func(b *usage.KeyBatch, _ *usage.KeyRow) { b.Through = -1 },
		"a huge time":            func(b *usage.KeyBatch, _ *usage.KeyRow) { b.From = 1 << 60 },
		"a short kid":            func(_ *usage.KeyBatch, r *usage.KeyRow) { r.KID = "a" },
		"a kid with a sign":      func(_ *usage.KeyBatch, r *usage.KeyRow) { r.KID = "0123456789A_" },
		"a whole key for a kid":  func(_ *usage.KeyBatch, r *usage.KeyRow) { r.KID = "hg_live_0123456789AB_secret" },
		"an address":             func(_ *usage.KeyBatch, r *usage.KeyRow) { r.Network = "203.0.113.7/32" },
		"a network unmasked":     func(_ *usage.KeyBatch, r *usage.KeyRow) { r.Network = "203.0.113.7/24" },
		"a mapped network":       func(_ *usage.KeyBatch, r *usage.KeyRow) { r.Network = "::ffff:0.0.0.0/48" },
		"a long agent":           func(_ *usage.KeyBatch, r *usage.KeyRow) { r.Agent = strings.Repeat("a", usage.MaxAgent+1) },
		"an agent with escapes":  func(_ *usage.KeyBatch, r *usage.KeyRow) { r.Agent = "\x1b[31m" },
		"no requests":            func(_ *usage.KeyBatch, r *usage.KeyRow) { *r = usage.KeyRow{KID: kid} },
		"fewer than refused":     func(_ *usage.KeyBatch, r *usage.KeyRow) { r.Requests = 3 },
		"fewer than limited":     func(_ *usage.KeyBatch, r *usage.KeyRow) { r.Limited = 6 },
		"negative":               func(_ *usage.KeyBatch, r *usage.KeyRow) { r.Requests = -9 },
		"last before first":      func(_ *usage.KeyBatch, r *usage.KeyRow) { r.LastUsed = 9 },
		"refused before first":   func(_ *usage.KeyBatch, r *usage.KeyRow) { r.LastRefused = 9 },
		"used at no time":        func(_ *usage.KeyBatch, r *usage.KeyRow) { r.FirstUsed, r.LastUsed = 0, 0 },
		"refused at no time":     func(_ *usage.KeyBatch, r *usage.KeyRow) { r.FirstRefused, r.LastRefused = 0, 0 },
		"a time of no use":       func(_ *usage.KeyBatch, r *usage.KeyRow) { r.Requests, r.Limited = 4, 0 },
	} {
		row := goodRow()
		b := goodBatch()
		change(&b, &row)
		b.Rows = append(b.Rows, row)
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		bad[name] = packed(t, string(text))
	}
	for name, body := range bad {
		if b, err := usage.DecodeKeys(body); !errors.Is(err, usage.ErrKeyBatch) {
			t.Errorf("%s is read as %+v, %v", name, b, err)
		}
	}
	good := goodBatch(goodRow())
	body, err := usage.EncodeKeys(&good)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := usage.DecodeKeys(body); err != nil {
		t.Errorf("a good one is refused: %v", err)
	}
}

func TestEncodeKeys_RefusesWhatNobodyWouldRead(t *testing.T) {
	t.Parallel()
	b := goodBatch(make([]usage.KeyRow, usage.MaxKeyRows+1)...)
	if _, err := usage.EncodeKeys(&b); err == nil {
		t.Fatal("more rows than a batch may have are written")
	}
}

func FuzzDecodeKeys(f *testing.F) {
	b := goodBatch(goodRow())
	body, err := usage.EncodeKeys(&b)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body, "")
	f.Add([]byte("x"), `{"replica":"a","boot":"b","seq":1,"rows":[{"k":"0123456789AB","q":1,"uf":1,"ul":1}]}`)
	f.Add([]byte{}, `{"seq":1e3}`)
	f.Fuzz(func(t *testing.T, body []byte, text string) {
		for _, body := range [][]byte{body, packed(t, text)} {
			b, err := usage.DecodeKeys(body)
			if err != nil {
				continue
			}
			again, err := usage.EncodeKeys(b)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := usage.DecodeKeys(again); err != nil || len(back.Rows) != len(b.Rows) {
				t.Fatalf("what was read is not read again: %v", err)
			}
		}
	})
}
