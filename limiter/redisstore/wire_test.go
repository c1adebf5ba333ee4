package redisstore

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

func packed(draws ...*limiter.Draw) *call {
	c, k := newCall(), newKeyspace("hg", "d")
	for _, d := range draws {
		var r request
		k.pack(&r, d, 0)
		c.add(&r)
	}
	c.finish()
	return c
}

func TestPack_IsWhatTheScriptReads(t *testing.T) {
	t.Parallel()
	n := policy.Numbers{Tokens: 1, Period: 0x0102030405, Burst: 2}
	a, b := limiter.Row{Kind: limiter.RowTenant, Tenant: "ten_a"}, limiter.Row{Kind: limiter.RowGlobal}
	c := packed(
		&limiter.Draw{Charges: []limiter.Charge{{Row: a, Hash: 7, Numbers: n, Cost: 1}, {Row: b, Hash: 8, Numbers: n, Cost: 2}}},
		&limiter.Draw{Charges: []limiter.Charge{{Row: b, Hash: 9, Numbers: n, Cost: 1}}},
	)
	numbers := "010000000000" + "050403020100" + "020000000000"
	want := "0200" + "0000" +
		"02" + "0100" + "0700000000000000" + numbers + "010000000000" +
		"0200" + "0800000000000000" + numbers + "020000000000" +
		"01" + "0200" + "0900000000000000" + numbers + "010000000000"
	if got := hex.EncodeToString(c.arg); got != want {
		t.Errorf("packed\n%s, want\n%s", got, want)
	}
	if got := fmt.Sprint(c.keys); got != "[[hg:l:{144}:t:ten_a hg:l:{g}:g:all] [] []]" {
		t.Errorf("keys %s", got)
	}
	if c.replyLen != 8+(1+2*16)+(1+16) {
		t.Errorf("expects %d bytes back", c.replyLen)
	}
}

func TestPack_TheFullFormIsWhatTheScriptReads(t *testing.T) {
	t.Parallel()
	n := policy.Numbers{Tokens: 1, Period: 1, Burst: 10}
	d := limiter.Row{Kind: limiter.RowDimension, Tenant: "ten_a", Subject: "x"}
	row := limiter.Row{Kind: limiter.RowTenant, Tenant: "ten_a"}
	c := packed(&limiter.Draw{
		Charges: []limiter.Charge{{Row: d, Hash: 7, Numbers: n, Cost: 1, Extra: 3, Shadow: true, Identifiers: 20}},
		Slots:   []limiter.Slot{{Row: row, Hash: 8, Max: 2, Lease: "lease-of-16-byte", HoldMicros: 0x10}},
		Quotas:  []limiter.Quota{{Row: row, Hash: 9, Start: 1, End: 0x20, Cost: 2, Amount: 5, Bill: true}},
	})
	gate := limiter.IdentifierNumbers(n, 20)
	want := "0100" + "0100" + "ff" + "00" + "010101" +
		"0100" + little(7, 8) + little(1, 6) + little(1, 6) + little(10, 6) + little(1, 6) +
		"03" + little(3, 6) + "0100" + little(^7, 8) + little(gate.Tokens, 6) + little(gate.Period, 6) + little(gate.Burst, 6) +
		"0100" + little(2, 4) + little(0x10, 6) + "00" + "10" + hex.EncodeToString([]byte("lease-of-16-byte")) +
		"0200" + little(2, 7) + little(5, 7) + little(policy.MaxUnits-1, 7) + little(0x20, 8) + "02"
	if got := hex.EncodeToString(c.arg); got != want {
		t.Errorf("packed\n%s, want\n%s", got, want)
	}
	if c.replyLen != 8+1+fullLevelBytes+slotBytes+quotaBytes {
		t.Errorf("expects %d bytes back", c.replyLen)
	}
}

func little(v int64, bytes int) string { return hex.EncodeToString(appendUint(nil, bytes, v)) }

func TestPack_LeavesTheDrawToTheCaller(t *testing.T) {
	t.Parallel()
	n := policy.Numbers{Tokens: 1, Period: 1, Burst: 2}
	d := limiter.Draw{Charges: []limiter.Charge{{Row: limiter.Row{Kind: limiter.RowGlobal}, Hash: 7, Numbers: n, Cost: 1}}}
	var r request
	newKeyspace("hg", "").pack(&r, &d, 0)
	before := string(r.arg)
	d.Charges[0] = limiter.Charge{}
	if string(r.arg) != before || string(r.text) != "hg:l:{g}:g:all" {
		t.Error("the packed request changed with the caller's draw")
	}
}

func TestCall_IsAsNewAfterReset(t *testing.T) {
	t.Parallel()
	d := draw2(limiter.Row{Kind: limiter.RowGlobal})
	fresh, used := packed(d), packed(d, draw2(limiter.Row{Kind: limiter.RowTenant, Tenant: "ten_a"}))
	used.reset()
	var r request
	newKeyspace("hg", "d").pack(&r, d, 0)
	used.add(&r)
	used.finish()
	if !reflect.DeepEqual(used, fresh) {
		t.Errorf("after reset %+v, want %+v", used, fresh)
	}
}

func draw2(row limiter.Row) *limiter.Draw {
	return &limiter.Draw{Charges: []limiter.Charge{{Row: row, Hash: 7, Numbers: policy.Numbers{Tokens: 1, Period: 1, Burst: 2}, Cost: 1}}}
}

func TestScript_ReadsTheClockInItsPrologueOnly(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"plain": clockSource + loneSource + rowsSource + plainSource, "full": clockSource + rowsSource + countsSource + fullSource, "amend": clockSource + rowsSource + countsSource + amendSource,
	} {
		if got := strings.Count(source, "'TIME'"); got != 1 {
			t.Errorf("%s: TIME is read in %d places", name, got)
		}
		virtual := withPrologue(source, "local now = 1\n")
		if strings.Contains(virtual, "'TIME'") || strings.Count(virtual, "local now") != 1 {
			t.Errorf("%s: the variant still has the prologue", name)
		}
		if virtual[len(virtual)-300:] != source[len(source)-300:] || len(virtual) < len(source)-400 {
			t.Errorf("%s: the variant lost more than the prologue", name)
		}
	}
}

// FuzzReply: no bytes make the decoder panic, and what it takes for an outcome
// is one that the script can have meant.
func FuzzReply(f *testing.F) {
	good := binary.LittleEndian.AppendUint64(nil, 1_700_000_000_000_000)
	good = append(good, statusAdmitted)
	good = append(good, make([]byte, 32)...)
	f.Add(string(good), uint8(2), uint8(0), uint8(0), false)
	f.Add(string(good[:9]), uint8(0), uint8(0), uint8(0), true)
	f.Add("", uint8(1), uint8(0), uint8(0), false)
	f.Add(strings.Repeat("\xff", 41), uint8(2), uint8(0), uint8(0), false)
	f.Add("12345678\x02"+strings.Repeat("\x00", 16), uint8(1), uint8(0), uint8(0), false)
	f.Add(string(good[:8])+"\x01"+strings.Repeat("\x01", fullLevelBytes+slotBytes+quotaBytes), uint8(1), uint8(1), uint8(1), true)
	f.Fuzz(func(t *testing.T, text string, charges, slots, quotas uint8, full bool) {
		s := shape{int(charges), int(slots), int(quotas), full}
		if !full {
			s.slots, s.quotas = 0, 0
		}
		answer, err := openReply(text, 8+s.replyBytes())
		if err != nil {
			return
		}
		out, err := answer.next(s)
		if err != nil {
			return
		}
		if len(out.Levels) != s.charges || len(out.Slots) != s.slots || len(out.Quotas) != s.quotas {
			t.Fatalf("%+v", out)
		}
		inRange := out.NowMicros >= 0 && out.NowMicros < policy.MaxUnits
		for _, l := range out.Levels {
			inRange = inRange && l.WaitMicros >= 0 && l.Extra >= 0 && l.Units < policy.MaxUnits && l.Units > -policy.MaxUnits
		}
		for _, q := range out.Quotas {
			inRange = inRange && q.Used >= 0 && q.Used < policy.MaxUnits
		}
		if !inRange {
			t.Fatalf("%+v", out)
		}
	})
}

// FuzzAmended: the other decoder.
func FuzzAmended(f *testing.F) {
	f.Add("123456\x00\x00\x01", 0)
	f.Add("123456\x00\x00\x01\x01\x00", 2)
	f.Add("123456\x00\x00\x02", 3)
	f.Fuzz(func(t *testing.T, text string, renewals int) {
		answer, err := openAmended(text, renewals)
		if held := answer.held; err == nil && len(held) != 0 && len(held) != renewals {
			t.Fatalf("%d bytes for %d renewals", len(held), renewals)
		}
		if err == nil && (answer.at < 0 || answer.at >= policy.MaxUnits) {
			t.Fatalf("a time of %d", answer.at)
		}
	})
}
