package console

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// sourceSaid is where the value in force comes from.
func (l *Rung) sourceSaid() string {
	switch {
	case l.Kind == string(LimitQuota) && l.Source != policy.SourceOverride && l.Source != policy.SourceBoost:
		return "the quota of " + l.Source
	case l.Source == policy.SourceOverride:
		return "its own value of " + l.ID
	case l.Source == policy.SourceBoost:
		return l.ID + ", although it is boosted"
	}
	return l.Source
}

// told is the value in words, and whom it counts.
func (l *Rung) told() string {
	if l.Per == "" || l.Kind == string(LimitQuota) {
		return l.Text
	}
	return l.Text + " per " + l.Per
}

// levelSaid is how much of it is used.
func (l *Rung) levelSaid() string {
	switch {
	case !l.Known || l.Blocked:
		return ""
	case l.Cost > max(l.Burst, l.Limit):
		return fmt.Sprintf("one request costs %d, and it can hold %d", l.Cost, max(l.Burst, l.Limit))
	case l.Kind == string(LimitRate):
		return fmt.Sprintf("%d of its burst of %d used", l.Used, l.Burst)
	case l.Kind == string(LimitConcurrency):
		return fmt.Sprintf("%d of %d places taken", l.Used, l.Limit)
	}
	return fmt.Sprintf("%d of %d used", l.Used, l.Limit)
}

// forCustomer is what can be sent to the customer as it is: no names of limits, no
// versions, no counters of others.
func (e *explaining) forCustomer(l *Rung) string {
	a := e.out.Answer
	where := e.whereTold()
	first := "Some of your requests" + where + " are being refused because "
	wait := ""
	if a != nil && !a.Allowed && a.RetryAfter > 0 {
		wait = " The next one will be accepted in about " + spanSaid(a.RetryAfter) + "."
		if a.RetryAfter >= 48*time.Hour {
			wait = " They will be accepted again on " + e.out.At.Add(a.RetryAfter).Format("2 January, 15:04 UTC") + "."
		}
	}
	const advice = " Each refusal says in its Retry-After header how long to wait; requests that come sooner are refused again."
	switch {
	case l.Per == string(policy.PerGlobal):
		return "Some requests" + where + " are being refused because there is more traffic than usual at the moment. It does not depend on how many you send." + advice
	case l.Blocked:
		return "Requests" + where + " are not admitted at the moment. Waiting does not help; please get in touch with us about it."
	case a != nil && a.Reason == string(limiter.ReasonCostExceedsBurst):
		return "A single request" + where + " asks for more than can be admitted at once. Waiting does not help; asking for less in one request does."
	case l.Kind == string(LimitConcurrency):
		return first + fmt.Sprintf("more than %d of them run at the same time. Please start the next one when one has ended.", l.Limit)
	case l.Kind == string(LimitQuota):
		return first + "the amount that your plan includes for this period is used up." + wait
	}
	return first + "you send more than is agreed" + plainRate(l) + "." + wait + advice
}

// whereTold is the route as the customer knows it: never by a name of ours.
func (e *explaining) whereTold() string {
	if where := e.where(); !strings.Contains(where, " route") {
		return where
	}
	return ""
}

// plainRate is a rate in words for somebody who knows nothing of buckets.
func plainRate(l *Rung) string {
	if l.Window <= 0 || l.Limit <= 0 {
		return ""
	}
	return fmt.Sprintf(" (%d a %s, and %d at once)", l.Limit, windowSaid(l.Window), l.Burst)
}

// act lists what is safe to do.
func (e *explaining) act() {
	o := &e.out
	if o.Key != nil && o.Key.Known {
		if !o.Key.Accepted && o.Key.Version.State == policy.KeySuspended {
			e.offer(ExplainAction{Act: ActResume, KID: o.Key.KID, Text: "Resume the key: it is accepted again within a second."})
		}
		e.offer(ExplainAction{Act: ActKey, KID: o.Key.KID, Text: "Look at the key, its rotation and who uses it."})
	}
	if o.Tenant != nil && o.Tenant.State == policy.TenantSuspended {
		e.offer(ExplainAction{Act: ActResume, TenantID: o.Tenant.ID, Text: "Resume the tenant: it is admitted again within a second."})
	}
	d := e.deciding()
	if d == nil || d.Blocked {
		return
	}
	if o.Tenant != nil && d.Own && !d.Shadow {
		e.offer(ExplainAction{Act: ActBoost, TenantID: o.Tenant.ID, Limit: d.ID, Text: "Boost " + d.ID + " ×2 for 1 h. It ends by itself."})
		if d.Kind != string(LimitConcurrency) {
			e.offer(ExplainAction{Act: ActReset, TenantID: o.Tenant.ID, Limit: d.ID, Text: fmt.Sprintf("Reset the counter of %s: what is counted (%s) is forgotten, and the whole allowance is there anew.", d.ID, d.levelSaid())})
		}
	}
	subject := e.q.IP
	if strings.Contains(d.Per, "body:") {
		subject = e.q.Account
	}
	if subject != "" {
		e.offer(ExplainAction{Act: ActUnlock, Limit: d.ID, Subject: subject, Text: "Unlock " + subject + " at " + d.ID + "."})
	}
}

func (e *explaining) offer(a ExplainAction) { e.out.Actions = append(e.out.Actions, a) }

func versionName(n int64) string { return fmt.Sprintf("v%d", n) }

func whenSaid(t *time.Time) string {
	if t == nil {
		return "at a time that is not known"
	}
	return "on " + t.UTC().Format("2 January 2006 15:04 UTC")
}

func reasonSaid(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// spanSaid is a span as people say it: rounded up, as waits are.
func spanSaid(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", float64((d+99*time.Millisecond)/(100*time.Millisecond))/10)
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", (d+time.Second-1)/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", (d+time.Minute-1)/time.Minute)
	}
	return fmt.Sprintf("%d h", (d+time.Hour-1)/time.Hour)
}

// joined puts the parts that say something behind each other.
func joined(parts []string) string {
	var said []string
	for _, p := range parts {
		if p != "" {
			said = append(said, p)
		}
	}
	return strings.Join(said, "; ")
}

func capital(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return s
	}
	return string(unicode.ToUpper(r)) + s[size:]
}

// riseText is a rise in per cent as a factor with one decimal: 410 is "4.1".
func riseText(percent int64) string { return FactorText((percent + 5) / 10 * 100) }
