package redisstore

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

func TestPack_IsWhatTheScriptReads(t *testing.T) {
	t.Parallel()
	s := New(nil, Options{Deployment: "d"})
	n := policy.Numbers{Tokens: 1, Period: 0x0102030405, Burst: 2}
	a, b := limiter.Row{Kind: limiter.RowTenant, Tenant: "ten_a"}, limiter.Row{Kind: limiter.RowGlobal}
	c := newCall()
	c.add(s.pack([]limiter.Charge{{Row: a, Hash: 7, Numbers: n, Cost: 1}, {Row: b, Hash: 8, Numbers: n, Cost: 2}}))
	c.add(s.pack([]limiter.Charge{{Row: b, Hash: 9, Numbers: n, Cost: 1}}))
	numbers := "010000000000" + "050403020100" + "020000000000"
	want := "02" + "0100" + "0700000000000000" + numbers + "010000000000" +
		"0200" + "0800000000000000" + numbers + "020000000000" +
		"01" + "0200" + "0900000000000000" + numbers + "010000000000"
	if got := hex.EncodeToString(c.arg); got != want {
		t.Errorf("packed\n%s, want\n%s", got, want)
	}
	if len(c.keys) != 2 || c.keys[0] != s.RowKey(a) || c.keys[1] != s.RowKey(b) {
		t.Errorf("keys %v", c.keys)
	}
	if c.replyLen != 8+(1+2*16)+(1+16) {
		t.Errorf("expects %d bytes back", c.replyLen)
	}
}

func TestPack_LeavesTheChargesToTheCaller(t *testing.T) {
	t.Parallel()
	n := policy.Numbers{Tokens: 1, Period: 1, Burst: 2}
	charges := []limiter.Charge{{Row: limiter.Row{Kind: limiter.RowGlobal}, Hash: 7, Numbers: n, Cost: 1}}
	r := New(nil, Options{}).pack(charges)
	before := string(r.arg)
	charges[0] = limiter.Charge{}
	if string(r.arg) != before || r.keys[0] != "hg:l:{g}:g:all" {
		t.Error("the packed request changed with the caller's charges")
	}
}

func TestScript_ReadsTheClockInItsPrologueOnly(t *testing.T) {
	t.Parallel()
	if got := strings.Count(takeSource, "'TIME'"); got != 1 {
		t.Errorf("TIME is read in %d places", got)
	}
	virtual := withPrologue(takeSource, "local now = 1\n")
	if strings.Contains(virtual, "TIME") || strings.Count(virtual, "local now") != 1 {
		t.Error("the variant still has the prologue")
	}
	if !strings.HasSuffix(virtual, "return table.concat(reply)\n") || len(virtual) < len(takeSource)-400 {
		t.Error("the variant lost more than the prologue")
	}
}

// FuzzReply: no bytes make the decoder panic, and what it takes for an outcome
// is one that the script can have meant.
func FuzzReply(f *testing.F) {
	good := binary.LittleEndian.AppendUint64(nil, 1_700_000_000_000_000)
	good = append(good, statusAdmitted)
	good = append(good, make([]byte, 32)...)
	f.Add(string(good), uint8(2))
	f.Add(string(good[:9]), uint8(0))
	f.Add("", uint8(1))
	f.Add(strings.Repeat("\xff", 41), uint8(2))
	f.Add("12345678\x02"+strings.Repeat("\x00", 16), uint8(1))
	f.Fuzz(func(t *testing.T, text string, charges uint8) {
		answer, err := openReply(text, 8+1+int(charges)*levelBytes)
		if err != nil {
			return
		}
		out, err := answer.next(int(charges))
		if err != nil {
			return
		}
		if len(out.Levels) != int(charges) || out.NowMicros < 0 || out.NowMicros >= policy.MaxUnits {
			t.Fatalf("%+v", out)
		}
		for _, level := range out.Levels {
			if level.Units < 0 || level.WaitMicros < 0 || level.Units >= policy.MaxUnits {
				t.Fatalf("%+v", out)
			}
		}
	})
}
