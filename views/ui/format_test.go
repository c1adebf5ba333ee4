package ui_test

import (
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate/views/ui"
)

func same(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNumbers_AreShortAndUnknownIsNeverZero(t *testing.T) {
	t.Parallel()
	same(t, ui.Int(0), "0")
	same(t, ui.Int(999), "999")
	same(t, ui.Int(18420), "18\u202f420")
	same(t, ui.Int(-1234567), "−1\u202f234\u202f567")
	same(t, ui.Num(0), "0")
	same(t, ui.Num(0.04), "0.04")
	same(t, ui.Num(0.42), "0.4")
	same(t, ui.Num(9.96), "10.0")
	same(t, ui.Num(12.4), "12")
	same(t, ui.Num(math.NaN()), ui.Unknown)
	same(t, ui.Num(math.Inf(1)), ui.Unknown)
	same(t, ui.Rate(19), "19/s")
	same(t, ui.Rate(math.NaN()), ui.Unknown)
	same(t, ui.Percent(math.NaN()), "–")
	same(t, ui.Percent(0), "0 %")
	same(t, ui.Percent(0.004), "< 0.1 %")
	same(t, ui.Percent(99.99), "> 99.9 %")
	same(t, ui.Percent(100), "100 %")
	same(t, ui.Millis(420*time.Microsecond), "0.42 ms")
	same(t, ui.Millis(1500*time.Millisecond), "1\u202f500 ms")
}

func TestTimes_AreRelativeWithTheirAbsoluteForm(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	same(t, ui.Ago(now, time.Time{}), "–")
	same(t, ui.Ago(now, now.Add(-300*time.Millisecond)), "now")
	same(t, ui.Ago(now, now.Add(-2*time.Second)), "2 s ago")
	same(t, ui.Ago(now, now.Add(-90*time.Second)), "1 min 30 s ago")
	same(t, ui.Ago(now, now.Add(-20*time.Minute)), "20 min ago")
	same(t, ui.Ago(now, now.Add(-168*time.Minute)), "2 h 48 min ago")
	same(t, ui.Ago(now, now.Add(6*24*time.Hour)), "in 6 d")
	same(t, ui.Ago(now, now.Add(7*24*time.Hour-time.Second)), "in 6 d 23 h")
	same(t, ui.Span(50*time.Hour), "2 d 2 h")
	same(t, ui.Span(24*time.Hour), "24 h")
	same(t, ui.Absolute(now.In(time.FixedZone("x", 3600))), "2026-11-30 12:00:00 UTC")
	same(t, ui.ShortDigest("sha256:6d026683f474beec"), "6d026683f4")
	same(t, ui.ShortDigest(""), "")
}

func TestURLs_EscapeWhatTheyAreGiven(t *testing.T) {
	t.Parallel()
	same(t, ui.TenantURL("ten_a", "keys"), "/tenants/ten_a/keys")
	same(t, ui.TenantURL("../audit", ""), "/tenants/..%2Faudit")
	same(t, ui.KeyURL("a?b", "revoke"), "/keys/a%3Fb/revoke")
	same(t, ui.RotationURL("rot_1", ""), "/rotations/rot_1")
	same(t, ui.ViewAsURL("a/b"), "/tenants/a%2Fb/view-as")
	same(t, ui.TenantLiveURL("ten_a", "range=5m"), "/live/tenants/ten_a?range=5m")
	same(t, ui.GatewaysLiveURL(""), "/live/gateways")
}
