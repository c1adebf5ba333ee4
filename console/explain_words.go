package console

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// say puts the explanation into words.
func (e *explaining) say() {
	o := &e.out
	o.Subject = capital(e.subject())
	e.outcome()
	switch o.Outcome {
	case OutcomeRefused, OutcomeAtTimes:
		e.sayRefused()
	case OutcomeAdmitted:
		o.Sentence = e.sayAdmitted()
		o.Customer = "Your requests are being accepted at the moment. If you still see refusals, please send us the answer that you get, with its receipt."
	default:
		e.sayUnknown()
	}
	if o.Gateways.Degraded > 0 && o.Gateways.RedisUp {
		e.remark(fmt.Sprintf("%d of %d gateways decide without Redis at the moment (%s): there the fail mode holds, not this ladder.",
			o.Gateways.Degraded, o.Gateways.Of, strings.Join(o.Gateways.Names, ", ")))
	}
	if a := o.Answer; a != nil && a.CostAssumed {
		e.remark("The cost of such a request is computed from what it asks for; 1 was taken.")
	}
	if v := o.Version; v.Answered != 0 && v.Answered != v.Head {
		e.remark(fmt.Sprintf("Redis has %s, and %s is in force: the answer is by what Redis has.", versionName(v.Answered), versionName(v.Head)))
	}
	if o.LeftOut > 0 {
		e.remark(fmt.Sprintf("%d more routes were not asked. Name a route to ask about it.", o.LeftOut))
	}
	if e.ip.IsValid() && o.Tenant == nil {
		e.remark("The limit of refused keys per address is counted in each gateway's memory: nobody else knows it.")
	}
}

// subject is whom it is about.
func (e *explaining) subject() string {
	o := &e.out
	var parts []string
	switch {
	case o.Tenant != nil:
		parts = append(parts, o.Tenant.Name)
	case o.Key != nil:
		parts = append(parts, "the key "+o.Key.Masked)
	}
	for _, p := range [][2]string{{e.q.IP, "the address "}, {e.q.Account, "the account "}, {e.q.User, "the user "}} {
		if p[0] != "" {
			parts = append(parts, p[1]+p[0])
		}
	}
	if len(parts) == 0 {
		return "this receipt"
	}
	return strings.Join(parts, " from ")
}

// outcome decides what becomes of the next request.
func (e *explaining) outcome() {
	o := &e.out
	a := o.Answer
	switch {
	case o.Key != nil && !o.Key.Accepted, o.Tenant != nil && o.Tenant.State != policy.TenantActive:
		o.Outcome = OutcomeRefused
	case a == nil && !o.Gateways.RedisUp && e.allClosed():
		o.Outcome = OutcomeRefused
	case a == nil, a.Degraded && a.Allowed:
		o.Outcome = OutcomeUnknown
	case !a.Allowed:
		o.Outcome = OutcomeRefused
	case o.Traffic.LastMinute.Refused > 0 && e.q.IP+e.q.Account+e.q.User == "":
		o.Outcome = OutcomeAtTimes
	default:
		o.Outcome = OutcomeAdmitted
	}
}

// allClosed reports whether every route that is meant is closed without Redis.
func (e *explaining) allClosed() bool {
	for _, r := range e.asked {
		if r.Route.OnStoreFailure.Mode == policy.FailOpen {
			return false
		}
	}
	return len(e.asked) > 0
}

// where is the route, as customers know it, with its name.
func (e *explaining) where() string {
	switch o := &e.out; {
	case e.q.Path != "":
		return " on " + cmp.Or(strings.ToUpper(e.q.Method), "GET") + " " + e.q.Path
	case e.everywhere():
		return " on every route"
	case o.Match != "" && o.Match != "/":
		first, _, _ := strings.Cut(o.Match, ", ")
		return " on " + first
	case o.Route != "":
		return " on route " + o.Route
	}
	return ""
}

// everywhere reports whether several routes were asked and one limit refuses on all.
func (e *explaining) everywhere() bool {
	if e.q.Route != "" || len(e.answers) < 2 {
		return false
	}
	limit := ""
	for i := range e.answers {
		a := &e.answers[i]
		if a.Allowed || a.Deciding < 0 || a.Deciding >= len(a.Limits) || limit != "" && a.Limits[a.Deciding].ID != limit {
			return false
		}
		limit = a.Limits[a.Deciding].ID
	}
	return true
}

// sayRefused says why: the first cause that holds, in the order in which a gateway looks.
func (e *explaining) sayRefused() {
	o := &e.out
	name := o.Subject
	switch {
	case o.Key != nil && !o.Key.Accepted:
		e.cause(WhoseTheirs, "They use a key that is not accepted.", "The key "+o.Key.Masked+" "+o.Key.Standing+". Requests with it are answered with 401.",
			"The API key that you use is not accepted. Please check that it was copied whole and is the newest one that you were given, or ask us for another.")
		if o.Key.Known && o.Key.Version.State == policy.KeySuspended {
			o.Whose, o.Why = WhoseOurs, "An operator suspended the key; it can be resumed."
		}
	case o.Tenant != nil && o.Tenant.State == policy.TenantSuspended:
		e.cause(WhoseOurs, "An operator suspended the tenant; it can be resumed.", name+" is suspended"+reasonSaid(o.Tenant.Reason)+". Every request is answered with 403.",
			"Your account is suspended. Please get in touch with us about it.")
	case o.Tenant != nil && o.Tenant.State != policy.TenantActive:
		e.cause(WhoseOurs, "The tenant was deleted.", name+" was deleted. Every request is answered with 401.", "This account no longer exists.")
	case o.Answer == nil:
		e.cause(WhoseOurs, "Redis is away, and the routes are closed without it.", e.redisAway()+" "+e.out.Subject+" is refused"+e.where()+" with 503, as is everybody else.",
			"We have a technical problem at the moment, and some requests are refused because of it. It does not depend on how many requests you send.")
	case e.deciding() != nil:
		e.sayLimit(e.deciding())
	default:
		e.sayCode()
	}
}

// cause sets what is said.
func (e *explaining) cause(whose, why, sentence, customer string) {
	o := &e.out
	o.Whose, o.Why, o.Sentence, o.Customer = whose, why, sentence, customer
}

// sayCode says a refusal for which no limit stands.
func (e *explaining) sayCode() {
	o, a := &e.out, e.out.Answer
	head := o.Subject + " is refused" + e.where()
	ours := "We have a technical problem at the moment, and some requests are refused because of it. It does not depend on how many requests you send."
	switch {
	case a.Code == "no-route":
		e.cause(WhoseTheirs, "They ask for what the policy has no route for.", o.Subject+" gets 404"+e.where()+": no route of the policy matches.",
			"There is nothing at this address. Please check the method and the path of the request.")
	case a.Code == "plan-unknown":
		e.cause(WhoseOurs, "The policy in force lacks the tenant's plan.", head+" with 503: the policy in force has no plan "+o.Tenant.Plan+".", ours)
	case a.Status == 503 && !a.Degraded && a.Reason == string(limiter.ReasonClosed):
		e.cause(WhoseOurs, "Redis lost the counter of the tenant's quota.", head+" with 503: the counter of its quota was lost, and is being rebuilt from the ledger. That takes 10 seconds.",
			"We have a technical problem at the moment, and some requests are refused because of it. It will be over in some seconds.")
	case a.Code == "identity-unavailable" || a.Code == "no-policy" || a.Degraded || a.Status == 503:
		e.cause(WhoseOurs, "What has to be asked cannot be asked.", head+" with 503: "+cmp.Or(a.Detail, "the limits or the keys cannot be asked at the moment")+". The route is "+o.FailMode+".", ours)
	case a.Status == 401 || a.Code == "too-many-invalid-credentials":
		e.cause(WhoseTheirs, "They use no key, or one that is not accepted.", head+" with 401: no key, or one that is not accepted.",
			"The request carries no API key that we accept. Please check that it is sent in the right header, and copied whole.")
	default:
		e.cause(WhoseTheirs, "The request cannot be taken as it is.", head+" with "+strconv.Itoa(a.Status)+" ("+a.Code+").",
			"The request cannot be read. Please compare it with the documentation.")
	}
}

// sayLimit says a refusal by a limit.
func (e *explaining) sayLimit(l *Rung) {
	o := &e.out
	verb := " is refused"
	if o.Outcome == OutcomeAtTimes {
		verb = " is refused at times"
	}
	parts := []string{o.Subject + verb + e.where() + " by " + l.sourceSaid() + ", " + l.told()}
	if o.Outcome == OutcomeAtTimes {
		parts = append(parts, fmt.Sprintf("%d of %d requests in the last minute; one more would pass now", o.Traffic.LastMinute.Refused, o.Traffic.LastMinute.Requests))
	} else {
		parts = append(parts, l.levelSaid(), e.clearSaid(l))
	}
	if t := o.Traffic; !t.Since.IsZero() {
		since := "since " + t.Since.Format("15:04") + " UTC"
		if t.RisePercent >= 150 {
			since += fmt.Sprintf(", when traffic rose %s×", riseText(t.RisePercent))
		}
		parts = append(parts, since)
	}
	parts = append(parts, e.relationSaid())
	o.Sentence = joined(parts) + "."
	e.whose(l)
	o.Customer = e.forCustomer(l)
}

// whose tells apart what they send and what we decided.
func (e *explaining) whose(l *Rung) {
	o := &e.out
	switch {
	case l.Blocked:
		o.Whose, o.Why = WhoseOurs, "The value of the limit is 0: an operator decided that nothing is admitted."
	case l.Per == string(policy.PerGlobal):
		o.Whose, o.Why = WhoseOurs, "Everybody together uses up a limit that all share."
	case o.Version.Related != 0 && o.Traffic.RisePercent < 150:
		o.Whose, o.Why = WhoseOurs, "Their traffic is as before, and "+versionName(o.Version.Related)+" changed the limit: "+o.Version.Change+"."
	case o.Answer != nil && o.Answer.Reason == string(limiter.ReasonCostExceedsBurst):
		o.Whose, o.Why = WhoseTheirs, "One request of theirs costs more than the limit can ever hold."
	default:
		o.Whose, o.Why = WhoseTheirs, "They send more than they may."
	}
}

// clearSaid says when it clears.
func (e *explaining) clearSaid(l *Rung) string {
	a := e.out.Answer
	switch {
	case a == nil || a.Allowed:
		return ""
	case l.Blocked || a.Reason == string(limiter.ReasonCostExceedsBurst):
		return "waiting does not help"
	case l.Kind == string(LimitConcurrency):
		return "clear as soon as one of them ends"
	case a.RetryAfter > 0 && a.RetryAfter >= 48*time.Hour:
		return "clear on " + e.out.At.Add(a.RetryAfter).Format("2 January 15:04 UTC")
	case a.RetryAfter > 0:
		return "clear in " + spanSaid(a.RetryAfter)
	}
	return "nobody knows when it clears"
}

// relationSaid says how it stands to the last publication.
func (e *explaining) relationSaid() string {
	v := e.out.Version
	switch {
	case v.Related != 0:
		return fmt.Sprintf("%s changed it at %s UTC (%s)", versionName(v.Related), v.At.Format("15:04"), v.Change)
	case v.Head != 0:
		return "not related to " + versionName(v.Head)
	}
	return ""
}

func (e *explaining) sayAdmitted() string {
	o := &e.out
	s := o.Subject + " is not refused" + e.where() + ": the next request would pass"
	if n := len(o.Others); n > 0 {
		s = fmt.Sprintf("%s is not refused: the next request would pass on each of the %d routes that were asked", o.Subject, n+1)
	}
	if t := o.Traffic; t.Known && !t.LastRefused.IsZero() {
		return fmt.Sprintf("%s. Last refused %s ago; %d of %d requests in the last hour.", s, spanSaid(o.At.Sub(t.LastRefused)), t.LastHour.Refused, t.LastHour.Requests)
	}
	if o.Traffic.Known && o.Tenant != nil {
		return s + ". Nothing was refused in the last hour, as far as is known."
	}
	return s + "."
}

// redisAway says since when.
func (e *explaining) redisAway() string {
	return "Redis cannot be asked since " + e.out.Gateways.RedisSince.UTC().Format("15:04:05") + " UTC."
}

func (e *explaining) sayUnknown() {
	o := &e.out
	closed, open := 0, 0
	for _, r := range e.asked {
		if r.Route.OnStoreFailure.Mode == policy.FailOpen {
			open++
		} else {
			closed++
		}
	}
	switch {
	case o.Receipt != nil && !o.Receipt.Valid && o.Tenant == nil && o.Key == nil:
		o.Sentence = o.Receipt.Problem
	case o.Receipt != nil && o.Tenant == nil && o.Key == nil:
		o.Sentence = "The receipt says what was then; it names nobody whose limits could be looked up now."
	case !o.Gateways.RedisUp && e.compiled != nil:
		o.Sentence = fmt.Sprintf("%s Nobody knows what %s has left. Of the routes that count, %d go on within their fallback on each gateway, and %d are closed and answer 503.",
			e.redisAway(), e.subject(), open, closed)
		o.Whose, o.Why = WhoseOurs, "Redis is away."
		o.Customer = "We have a technical problem at the moment, and some requests may be refused because of it. It does not depend on how many requests you send."
	default:
		o.Sentence = "It is not known whether " + e.subject() + " is refused. " + e.whyNot
	}
}
