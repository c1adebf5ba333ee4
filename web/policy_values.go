package web

import (
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
)

func putRate(f *form.Form, prefix string, r policy.Rate, burst int64) {
	if r.Unlimited {
		f.Value[prefix+"unit"] = unlimitedUnit
		return
	}
	unit := r.Period.String()
	for _, u := range []struct {
		name   string
		period time.Duration
	}{{"second", time.Second}, {"minute", time.Minute}, {"hour", time.Hour}, {"day", 24 * time.Hour}} {
		if r.Period == u.period {
			unit = u.name
		}
	}
	f.Value[prefix+"count"], f.Value[prefix+"unit"] = strconv.FormatInt(r.Tokens, 10), unit
	f.Value[prefix+"burst"] = strconv.FormatInt(burst, 10)
}

// takeRate reads count, unit and burst. An empty burst is the count.
func takeRate(f *form.Form, prefix string) (policy.Rate, int64) {
	unit := f.Get(prefix + "unit")
	if unit == unlimitedUnit {
		return policy.Rate{Unlimited: true}, 0
	}
	count, burst := takeInt(f, prefix+"count"), int64(0)
	if f.Get(prefix+"burst") != "" {
		burst = takeInt(f, prefix+"burst")
	}
	if f.Error(prefix+"count") != "" {
		return policy.Rate{}, 0
	}
	rate, err := policy.ParseRate(strconv.FormatInt(count, 10) + "/" + unit)
	if err != nil {
		f.Fail(prefix+"count", err.Error()+".")
	}
	if f.Get(prefix+"burst") == "" {
		return rate, rate.Tokens
	}
	return rate, burst
}

// takeInt reads a number typed as plain digits. "1,000", "1.000" and "1e3" mean
// different things to different people and are refused.
func takeInt(f *form.Form, name string) int64 {
	s := f.Get(name)
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case s == "":
		f.Fail(name, "Is missing.")
	case strings.Trim(s, "0123456789") != "":
		text := "Must be plain digits, such as 1000."
		if meant := policy.PlainNumber(s); meant != "" {
			text = "Must be plain digits: " + meant + ", if that is what is meant."
		}
		f.Fail(name, text)
	case err != nil:
		f.Fail(name, "Is too large.")
	}
	return n
}

func takeLimits(f *form.Form) []policy.Limit {
	n, _ := strconv.Atoi(f.Get("limits"))
	var limits []policy.Limit
	for i := range min(max(n, 0), maxSectionLimits) {
		l := policy.Limit{Name: f.Get(limitField(i, "name")), Description: f.Get(limitField(i, "description")),
			Per: takePer(f, limitField(i, "per")), Counts: policy.Counts(f.Get(limitField(i, "counts"))),
			Mode: policy.LimitMode(f.Get(limitField(i, "kind"))), Sync: policy.LimitSync(f.Get(limitField(i, "sync")))}
		l.Rate, l.Burst = takeRate(f, limitField(i, ""))
		l.ExpiresAt = takeEnd(f, limitField(i, "expires"))
		limits = append(limits, l)
	}
	return limits
}

// perText spells dimensions as a form does: "ip, body:username".
func perText(p policy.Per) string { return strings.ReplaceAll(string(p), ",", ", ") }

// takePer reads dimensions with commas or spaces between them.
func takePer(f *form.Form, name string) policy.Per {
	return policy.Per(strings.Join(strings.FieldsFunc(f.Get(name), func(c rune) bool { return c == ',' || c == ' ' || c == '+' }), ","))
}

func endText(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// takeEnd reads a time in UTC; empty is never.
func takeEnd(f *form.Form, name string) *time.Time {
	s := f.Get(name)
	if s == "" {
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || !strings.HasSuffix(s, "Z") {
		f.Fail(name, "Must be a time in UTC, such as 2027-01-31T00:00:00Z.")
		return nil
	}
	return &t
}

// intIf is "" for a number that was not given.
func intIf(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// takeIntIf is 0 for an empty field.
func takeIntIf(f *form.Form, name string) int64 {
	if f.Get(name) == "" {
		return 0
	}
	n := takeInt(f, name)
	if n == 0 {
		f.Fail(name, "Must be 1 or more; leave it empty for none.")
	}
	return n
}

func putUser(f *form.Form, u *policy.User) {
	switch {
	case u == nil:
	case u.JWT != nil:
		f.Value["user-text"] = userText(u)
	default:
		f.Value["user-header"] = u.Header
	}
}

// putQuota fills in a plan's quota. Without one the fields hold what a new one
// would begin with.
func putQuota(f *form.Form, q *policy.Quota) {
	if q == nil {
		f.Value["q-period"], f.Value["q-counts"], f.Value["q-alignment"] = noPeriod, string(policy.CountsCost), string(policy.AlignCalendar)
		f.Value["q-zone"], f.Value["q-over"], f.Value["q-mode"] = policy.DefaultTimeZone, string(policy.OverBlock), string(policy.ModeEnforce)
		return
	}
	f.Value["q-amount"], f.Value["q-max"] = strconv.FormatInt(q.Amount, 10), intIf(q.Max)
	f.Value["q-period"], f.Value["q-counts"], f.Value["q-alignment"] = string(q.Period), string(q.Counts), string(q.Alignment)
	f.Value["q-zone"], f.Value["q-over"], f.Value["q-mode"] = q.TimeZone, string(q.Over), string(q.Mode)
}

func takeQuota(f *form.Form) *policy.Quota {
	if p := f.Get("q-period"); p == noPeriod || p == "" {
		if f.Get("q-amount") != "" {
			f.Fail("q-period", "Choose a period for the amount, or leave the amount empty for no quota.")
		}
		return nil
	}
	return &policy.Quota{
		Amount: takeInt(f, "q-amount"), Counts: policy.Counts(f.Get("q-counts")), Period: policy.QuotaPeriod(f.Get("q-period")),
		Alignment: policy.Alignment(f.Get("q-alignment")), TimeZone: f.Get("q-zone"), Over: policy.QuotaOver(f.Get("q-over")),
		Max: takeIntIf(f, "q-max"), Mode: policy.LimitMode(f.Get("q-mode")),
	}
}

func putConcurrency(f *form.Form, c *policy.Concurrency) {
	if c == nil {
		f.Value["c-mode"] = string(policy.ModeEnforce)
		return
	}
	f.Value["c-max"], f.Value["c-lease"] = strconv.FormatInt(c.Max, 10), c.Lease.String()
	f.Value["c-per"], f.Value["c-mode"] = perText(c.Per), string(c.Mode)
}

// takeConcurrency reads a route's concurrency limit; nothing typed is none.
func takeConcurrency(f *form.Form) *policy.Concurrency {
	if f.Get("c-max") == "" && f.Get("c-lease") == "" && f.Get("c-per") == "" {
		return nil
	}
	c := &policy.Concurrency{Per: takePer(f, "c-per"), Max: takeInt(f, "c-max"), Mode: policy.LimitMode(f.Get("c-mode"))}
	var err error
	if c.Lease, err = time.ParseDuration(f.Get("c-lease")); err != nil {
		f.Fail("c-lease", "Must be a duration, such as 90s or 5m.")
	}
	return c
}

// computedCost says how the cost of each request is found; "" for a number.
func computedCost(r policy.Route) string {
	switch {
	case r.GraphQL != nil:
		return "of the GraphQL query, at most " + strconv.FormatInt(r.GraphQL.Max, 10)
	case r.SettleHeader != "":
		return "reserved, then what the response says in " + r.SettleHeader
	}
	return ""
}
