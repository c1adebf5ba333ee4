package ui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// FrameProps is what stands around every page of the console.
type FrameProps struct {
	Title       string // of the page; the window's title adds the product's name
	Environment string // label of the deployment, such as "production"
	Path        string // of the request; marks the current entry of the rail
	Operator    string // who is signed in; empty leaves rail and strip's menu out
	Role        string
	Facts       Facts
	Flash       Flash
	Pending     *Pending // a change that gateways are taking up; nil: none
	ViewAs      string   // name of the tenant whose page an operator looks at
	Hidden      []string // addresses of rail entries that the role may not open
}

// Flash is the one message that a redirect carries to the next page.
type Flash struct {
	Kind string // ok, warn or bad
	Text string // empty: none
}

// Pending is a change that was made and is on its way to the gateways.
type Pending struct {
	Text  string // "Revoking: refused on 9 of 12 gateways so far"
	Doing string // the state meanwhile: "revoking"; "" when the thing has none
	Done  bool   // every gateway has it
	Poll  string // where it is asked for anew; "" once it is done
}

func (p Pending) kind() string {
	if p.Done {
		return "ok"
	}
	return "warn"
}

// Facts are the numbers of the status strip. What is not known is said to be
// unknown by the Known fields; it is never shown as zero.
type Facts struct {
	Now time.Time

	PolicyVersion int64  // 0: nothing has been published
	InSync        int    // replicas that enforce PolicyVersion
	Silent        int    // replicas that were not heard for some seconds; not among InSync
	Replicas      int    // replicas that are not gone
	ReplicasKnown bool   // false while Redis, which carries heartbeats, is away
	NACKs         int    // replicas that refuse the published version
	PolicyDiffers bool   // Redis holds PolicyVersion with another digest: something else writes there
	CutOff        int    // replicas that say they cannot ask Redis
	OnCanary      int    // replicas that enforce Canary, as they should; not among InSync
	Canary        int64  // version that runs on a few replicas first; 0: none
	ViaConsole    int    // replicas that are heard of through a console only
	Behind        int64  // version that Redis holds and PostgreSQL does not know; 0: none
	Hazards       int    // things about Redis that can lose or exceed limits now
	Hazard        string // the first of them

	RedisKnown   bool // false until the first probe
	RedisUp      bool
	RedisRTT     time.Duration
	RedisSince   time.Time // start of the present state
	PostgresDown bool

	LiveKnown      bool      // false when no live counts have come for some seconds
	DegradedPerS   float64   // decisions made without Redis
	RefusedPercent float64   // of decisions in the last minute; NaN when there were none
	Lockouts       int       // subjects that a limit refuses now
	LockoutsKnown  bool      // false while nobody knows
	LockoutsAt     time.Time // when they were counted
	Alerts         int       // that are open
	AlertsKnown    bool      // false until they were counted
	AlertsAt       time.Time // when they were counted
	AlertOldest    time.Time // since when the oldest of them is open
	Alert          string    // what the newest of them says
	Drafts         int
	Reviews        int  // drafts that wait for approval, and publications by break-glass that nobody has looked at
	ReviewsKnown   bool // false until they were counted
}

// Health is the worst state among the facts: bad, warn or ok.
func (f Facts) Health() string {
	switch {
	case f.PostgresDown, f.RedisKnown && !f.RedisUp, f.PolicyDiffers, f.Behind > 0, f.NACKs > 0, f.CutOff > 0, f.Hazards > 0:
		return "bad"
	case !f.RedisKnown, f.ReplicasKnown && f.Right() < f.Replicas, f.Canary > 0:
		return "warn"
	default:
		return "ok"
	}
}

// Right is how many replicas enforce what they should.
func (f Facts) Right() int { return f.InSync + f.OnCanary }

// Alarm is the banner of a page: the worst thing that is wrong now.
type Alarm struct {
	Kind   string // warn or bad
	Lead   string
	Rest   string
	URL    string
	Action string
}

// Alarm returns the worst thing that is wrong, if anything is.
func (f Facts) Alarm() (Alarm, bool) {
	switch {
	case f.PostgresDown:
		return Alarm{Kind: "bad", Lead: "PostgreSQL is unreachable.",
			Rest: "Nothing can be changed; gateways go on with what they have."}, true
	case f.RedisKnown && !f.RedisUp:
		rest := "Gateways that cannot reach it either follow their fail modes; what they do now is unknown here."
		if f.Replicas > 0 && f.ViaConsole >= f.Replicas {
			rest = "All gateways report to the console instead. Those that cannot reach it either follow their fail modes: open routes are on fallback, closed ones refuse."
		}
		return Alarm{Kind: "bad", Lead: "Redis is unreachable from the console" + SinceClock(f.RedisSince) + ".", Rest: rest, URL: GatewaysURL(), Action: "See effect"}, true
	case f.Behind > 0:
		return Alarm{Kind: "bad", Lead: "The database is behind the gateways.",
			Rest: fmt.Sprintf("Redis holds v%d and PostgreSQL ends at %s: it was restored from an older copy. Gateways go on.", f.Behind, f.version()), URL: AdoptURL(), Action: "See what mends it"}, true
	case f.PolicyDiffers:
		return Alarm{Kind: "bad", Lead: fmt.Sprintf("Redis holds v%d with another digest.", f.PolicyVersion),
			Rest: "Something other than this console writes there. Gateways keep what they have verified.", URL: GatewaysURL(), Action: "See gateways"}, true
	case f.NACKs > 0:
		return Alarm{Kind: "bad", Lead: fmt.Sprintf("v%d is refused by %s.", f.PolicyVersion, count(f.NACKs, f.Replicas)),
			Rest: "They keep the version they had.", URL: VersionURL(f.PolicyVersion), Action: "See why, roll back"}, true
	case f.CutOff > 0:
		return Alarm{Kind: "bad", Lead: "Redis is unreachable from " + count(f.CutOff, f.Replicas) + ".",
			Rest: "There, open routes are on fallback and closed routes refuse.", URL: GatewaysURL(), Action: "See effect"}, true
	case f.Hazards > 0:
		lead := "Redis endangers the limits."
		if f.Hazards > 1 {
			lead = fmt.Sprintf("Redis endangers the limits in %d ways.", f.Hazards)
		}
		return Alarm{Kind: "bad", Lead: lead, Rest: f.Hazard, URL: HazardsURL(), Action: "See what mends it"}, true
	case f.ReplicasKnown && f.Silent > 0 && f.Right()+f.Silent >= f.Replicas:
		who := "It has ended, or is"
		if f.Silent > 1 {
			who = "They have ended, or are"
		}
		return Alarm{Kind: "warn", Lead: "Nothing is heard from " + count(f.Silent, f.Replicas) + ".",
			Rest: who + " cut off from Redis and on fallback.", URL: GatewaysDiffersURL(), Action: "See which"}, true
	case f.ReplicasKnown && f.PolicyVersion > 0 && f.Right() < f.Replicas:
		return Alarm{Kind: "warn", Lead: fmt.Sprintf("v%d is not yet enforced by %s.", f.PolicyVersion, count(f.Replicas-f.Right(), f.Replicas)),
			URL: GatewaysDiffersURL(), Action: "See which"}, true
	case f.AlertsKnown && f.Alerts > 0:
		lead := "An alert is open" + SinceClock(f.AlertOldest) + "."
		if f.Alerts > 1 {
			lead = fmt.Sprintf("%d alerts are open, the oldest%s.", f.Alerts, SinceClock(f.AlertOldest))
		}
		return Alarm{Kind: "warn", Lead: lead, Rest: f.Alert, URL: AlertsURL(""), Action: "See alerts"}, true
	default:
		return Alarm{}, false
	}
}

func count(n, of int) string { return fmt.Sprintf("%d of %d gateways", n, of) }

// policyFact is the strip's words about replicas.
func (f Facts) policyFact() string {
	switch {
	case !f.ReplicasKnown:
		return "gateways unknown"
	case f.NACKs > 0:
		return fmt.Sprintf("%d NACK, %d/%d in sync", f.NACKs, f.InSync, f.Replicas)
	case f.Canary > 0:
		return fmt.Sprintf("on %d, canary v%d on %d of %d", f.InSync, f.Canary, f.OnCanary, f.Replicas)
	default:
		return fmt.Sprintf("%d/%d in sync", f.InSync, f.Replicas)
	}
}

// policyDot is the state shown beside policyFact.
func (f Facts) policyDot() string {
	switch {
	case f.NACKs > 0:
		return "bad"
	case !f.ReplicasKnown, f.InSync < f.Replicas, f.Replicas == 0: // a canary, too
		return "warn"
	default:
		return "ok"
	}
}

func (f Facts) version() string {
	if f.PolicyVersion == 0 {
		return "none"
	}
	return "v" + strconv.FormatInt(f.PolicyVersion, 10)
}

func (f Facts) redisFact() string {
	switch {
	case !f.RedisKnown:
		return "unknown"
	case !f.RedisUp && f.ViaConsole > 0:
		return fmt.Sprintf("unreachable, %s via console", count(f.ViaConsole, f.Replicas))
	case !f.RedisUp:
		return "unreachable"
	case f.CutOff > 0:
		return count(f.CutOff, f.Replicas) + " cut off"
	default:
		return Millis(f.RedisRTT)
	}
}

func (f Facts) redisDot() string {
	switch {
	case !f.RedisKnown:
		return "warn"
	case !f.RedisUp, f.CutOff > 0:
		return "bad"
	default:
		return "ok"
	}
}

func (f Facts) reviewsFact() string {
	if !f.ReviewsKnown {
		return "unknown"
	}
	return Int(int64(f.Reviews))
}

func (f Facts) degradedFact() string {
	if !f.LiveKnown {
		return "unknown"
	}
	return Rate(f.DegradedPerS)
}

func (f Facts) lockoutsFact() string {
	if !f.LockoutsKnown {
		return "unknown"
	}
	return Int(int64(f.Lockouts))
}

func (f Facts) alertsFact() string {
	if !f.AlertsKnown {
		return "unknown"
	}
	return Int(int64(f.Alerts))
}

// alertsAge is how long the oldest open alert has been open, to stand behind their number.
func (f Facts) alertsAge() string {
	if !f.AlertsKnown || f.Alerts == 0 {
		return ""
	}
	return Span(f.Now.Sub(f.AlertOldest))
}

// counted is the source and age of a number, for its title.
func (f Facts) counted(source string, known bool, at time.Time) string {
	if !known {
		return source + ", not known now"
	}
	return source + ", counted " + Ago(f.Now, at)
}

func (f Facts) refusedFact() string {
	if !f.LiveKnown {
		return "unknown"
	}
	return Percent(f.RefusedPercent)
}

type navEntry struct{ Label, URL string }

type navGroup struct {
	Label   string
	Entries []navEntry
}

// nav is the rail: only pages that exist.
func (p FrameProps) nav() []navGroup {
	all := []navGroup{
		{"Operate", []navEntry{{"Overview", OverviewURL()}, {"Explain", ExplainURL("")}, {"Tenants", TenantsURL()}, {"Keys", KeysURL()}, {"Leaked keys", LeaksURL()}, {"Usage", UsageURL("")}, {"Lockouts", LockoutsURL("")}, {"Gateways", GatewaysURL()}}},
		{"Change", []navEntry{{"Policy", PolicyURL()}, {"Drafts", DraftsURL()}, {"Reviews", ReviewsURL()}, {"Versions", VersionsURL()}, {"Routes", RoutesURL("")}, {"Plans", PlansURL()}, {"Advisor", AdvisorURL()}, {"Overrides", OverridesURL("")}, {"Rotations", RotationsURL()}, {"Bulk jobs", BulkURL("")}, {"Asks", AsksURL()}}},
		{"Record", []navEntry{{"Audit", AuditURL()}, {"Alerts", AlertsURL("")}}},
		{"Settings", []navEntry{{"Approval rules", RulesURL()}, {"Self-service", PortalRulesURL()}, {"Sessions", SessionsURL()}}},
	}
	for i := range all {
		all[i].Entries = slices.DeleteFunc(all[i].Entries, func(e navEntry) bool { return slices.Contains(p.Hidden, e.URL) })
	}
	return slices.DeleteFunc(all, func(g navGroup) bool { return len(g.Entries) == 0 })
}

// PageCalled is the address of the rail's page of that name, in whatever case;
// empty when there is none.
func (p FrameProps) PageCalled(name string) string {
	for _, g := range p.nav() {
		for _, e := range g.Entries {
			if strings.EqualFold(e.Label, name) {
				return e.URL
			}
		}
	}
	return ""
}

// Words are what the search understands besides what it finds: acts, and then pages.
func (p FrameProps) Words() []string {
	words := []string{"new tenant", "new draft", "new job", "publish", "explain ", "rotate ", "boost ", "override ", "issue key ", "keys of ", "usage of ", "members of "}
	for _, g := range p.nav() {
		for _, e := range g.Entries {
			words = append(words, strings.ToLower(e.Label))
		}
	}
	return words
}

// current reports whether url is the rail's entry for the page: the longest
// entry that the path begins with. A credential's pages rotate it.
func (p FrameProps) current(url string) bool {
	best := ""
	if strings.HasPrefix(p.Path, "/credentials/") {
		best = RotationsURL()
	}
	for _, g := range p.nav() {
		for _, e := range g.Entries {
			if (p.Path == e.URL || strings.HasPrefix(p.Path, e.URL+"/")) && len(e.URL) > len(best) {
				best = e.URL
			}
		}
	}
	return best == url
}

func (p FrameProps) windowTitle() string {
	if p.Title == "" {
		return "Headgate"
	}
	return p.Title + " · Headgate"
}
