package console

import (
	"context"
	"encoding/base64"
	"net/netip"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/receipt"
	"github.com/headgate/headgate/usage"
)

const (
	// explainRoutes bounds the routes that one explanation asks about.
	explainRoutes = 60
	// explainPatience bounds how long the engine is asked.
	explainPatience = 4 * time.Second
	// noteKeysEvery is how often heartbeats are looked through for keys of receipts.
	noteKeysEvery = 2 * time.Second
)

// Explainer says why somebody is refused.
type Explainer struct {
	d         Deps
	fleet     *Fleet
	live      *usage.Live
	probe     Probe // nil: limits are told without what is left of them
	overrides *Overrides
	policies  compiledCache
}

// NewExplainer returns the service. probe may be nil; then nobody knows counters.
func NewExplainer(d Deps, fleet *Fleet, live *usage.Live, probe Probe) *Explainer {
	return &Explainer{d: d.withDefaults(), fleet: fleet, live: live, probe: probe, overrides: NewOverrides(d)}
}

// Explain is what is asked. One of Tenant, Key, IP, Account, User and Receipt is needed.
type ExplainQuestion struct {
	Tenant  string // id, external id or name
	Key     string // kid, or the whole key, which is looked up in memory and kept nowhere
	IP      string
	Account string // value of the fields of bodies that limits count per
	User    string // of routes that know callers by it
	Receipt string
	Route   string // name; or Method and Path say which route is meant
	Method  string
	Path    string
	At      *time.Time // a moment of the last hour that is asked about besides now
}

// ExplainOutcome is what becomes of requests now.
type ExplainOutcome string

// Outcomes.
const (
	OutcomeRefused  ExplainOutcome = "refused"  // the next request
	OutcomeAtTimes  ExplainOutcome = "at-times" // of late some were, and the next one would pass
	OutcomeAdmitted ExplainOutcome = "admitted"
	OutcomeUnknown  ExplainOutcome = "unknown" // nobody can tell
)

// Whose a refusal is.
const (
	WhoseTheirs = "theirs" // what they send, or the key that they use
	WhoseOurs   = "ours"   // what an operator decided, or a fault
)

// Explanation is the answer.
type Explanation struct {
	At       time.Time
	Outcome  ExplainOutcome
	Sentence string
	Whose    string // WhoseTheirs, WhoseOurs; "" when nobody is refused or it is unknown
	Why      string // Whose, in a sentence
	Customer string // an answer for the customer, in plain words, without internals
	Subject  string // whom it is about, in words
	Tenant   *Tenant
	Key      *ExplainedKey
	Receipt  *ExplainedReceipt
	Route    string // name of the route that Answer is about
	Match    string // what the route takes: "POST /v1/search"
	Answer   *ProbeAnswer
	Ladder   []Rung
	Others   []ProbeAnswer // other routes that were asked
	LeftOut  int           // routes that were not asked
	FailMode string        // of the route, in words
	Traffic  ExplainTraffic
	Version  ExplainVersion
	Gateways ExplainGateways
	Actions  []ExplainAction
	Notes    []string
}

// ExplainedKey is a key version as a gateway would see it.
type ExplainedKey struct {
	KID, Masked string
	Known       bool // we have a version of that kid
	Secret      bool // the whole key was given, and it is the right one
	Accepted    bool
	Standing    string // in words
	Version     KeyVersion
}

// ExplainTraffic is what live counts say of the last hour: not the record.
type ExplainTraffic struct {
	Known        bool
	AsOf         time.Time
	LastMinute   Share
	LastHour     Share
	Since        time.Time // begin of the present run of refusals, ± 5 s; zero: none
	LastRefused  time.Time // ± 5 s
	RisePercent  int64     // requests a minute since then, of those of the ten minutes before; 0: unknown
	ByLimit      []usage.LimitRefusals
	ByRoute      []usage.RouteTotals
	AskedAt      *time.Time // of the question; Then is what happened in that minute
	Then         *Share     // nil: unknown
	ThenVersion  int64      // in force at that moment
	versionsSeen []Version
}

// ExplainVersion is how the refusal stands to the policy.
type ExplainVersion struct {
	Answered  int64 // by which the answer was made
	Head      int64
	Published time.Time // of Head
	// Related is the latest version that changed the limit that refuses, within a day,
	// and Change what it did; 0: none did.
	Related int64
	At      time.Time
	Change  string
}

// ExplainGateways is how the gateways stand.
type ExplainGateways struct {
	Known      bool
	Of, InSync int
	Degraded   int
	Silent     int
	Names      []string // of those that are degraded, at most 5
	RedisUp    bool
	RedisSince time.Time
}

// Rung is one limit of the ladder.
type Rung struct {
	ProbeLimit
	Per      string
	Text     string // the value in force, in words
	Used     int64
	Known    bool        // Used, Left and times are
	Missing  string      // what was not told so that it could not be looked up: "an address"
	Deciding bool        // it is what refuses
	Own      bool        // the tenant can have a value of its own
	Steps    []LimitStep // where the value comes from; nil where it is nobody's own
}

// ExplainAct is something safe that can be done.
type ExplainAct string

// Acts.
const (
	ActBoost  ExplainAct = "boost"
	ActReset  ExplainAct = "reset"
	ActUnlock ExplainAct = "unlock"
	ActResume ExplainAct = "resume" // a suspended tenant or key
	ActKey    ExplainAct = "key"    // look at the key
)

// ExplainAction is one act with what it is done to. Who may do it is asked there.
type ExplainAction struct {
	Act      ExplainAct
	TenantID string
	Limit    string
	KID      string
	Subject  string // an address or an account
	Text     string // what it does, in numbers
}

// Run notes keys of receipts until ctx ends.
func (s *Explainer) Run(ctx context.Context) error {
	noted := map[string]time.Time{}
	s.d.repeat(ctx, noteKeysEvery, "keys of receipts cannot be kept", func(ctx context.Context) error { return s.noteKeys(ctx, noted) })
	return nil
}

// noteKeys keeps the keys of heartbeats that were not kept within the last hour.
func (s *Explainer) noteKeys(ctx context.Context, noted map[string]time.Time) error {
	now := s.d.now()
	var fresh []ReceiptKey
	for _, k := range receiptKeysOf(s.fleet.Health(ctx).Replicas) {
		if now.Sub(noted[k.ID]) > time.Hour {
			fresh = append(fresh, k)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	err := s.d.Store.InTx(ctx, func(tx Tx) error { return tx.PutReceiptKeys(ctx, fresh, now) })
	if err != nil {
		return err
	}
	if len(noted) > maxRoster { // replicas that came and went
		clear(noted)
	}
	for _, k := range fresh {
		noted[k.ID] = now
	}
	return nil
}

// receiptKeysOf are the keys that replicas tell, each once.
func receiptKeysOf(replicas []Replica) []ReceiptKey {
	var out []ReceiptKey
	seen := map[string]bool{}
	for _, r := range replicas {
		raw, err := base64.RawURLEncoding.Strict().DecodeString(r.ReceiptKey)
		if err != nil || len(raw) != 32 {
			continue
		}
		k := ReceiptKey{ID: receipt.IDOf(raw).String(), Public: raw, Replica: r.ID, Host: r.Host}
		if !seen[k.ID] {
			seen[k.ID], out = true, append(out, k)
		}
	}
	return out
}

// Ask explains. It is CodeInvalid when nothing is asked about, or something that cannot
// be read, and CodeNotFound for a tenant that there is not.
func (s *Explainer) Ask(ctx context.Context, actor Actor, q ExplainQuestion) (Explanation, error) {
	if err := actor.need(PermView); err != nil {
		return Explanation{}, err
	}
	e := &explaining{s: s, q: q}
	e.out.At = s.d.now()
	if err := e.read(); err != nil {
		return Explanation{}, err
	}
	if err := s.d.Store.Read(ctx, func(tx Tx) error { return e.gather(ctx, tx) }); err != nil {
		return Explanation{}, err
	}
	e.health = s.fleet.Health(ctx)
	e.gateways()
	e.traffic()
	e.ask(ctx)
	e.choose()
	e.climb()
	e.relate()
	e.say()
	e.act()
	return e.out, nil
}

// explaining is one explanation in the making.
type explaining struct {
	s        *Explainer
	q        ExplainQuestion
	out      Explanation
	ip       netip.Addr
	secret   string // a whole key
	compiled *policy.Compiled
	limits   TenantLimits
	health   Health
	answers  []ProbeAnswer
	asked    []*policy.CompiledRoute
	whyNot   string // why nothing could be asked
}

func (e *explaining) remark(text string) { e.out.Notes = append(e.out.Notes, text) }
