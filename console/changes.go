package console

import (
	"context"
	"time"

	"github.com/headgate/headgate/decisionlog"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

// Prover runs documents through the real engine on a virtual clock; package
// replay is one. Its methods stop when ctx ends.
type Prover interface {
	// Test runs a suite. tenants looks up a scenario's tenant by id or external id.
	Test(ctx context.Context, d *policy.Document, s *scenario.Suite, tenants func(string) (policy.TenantRecord, bool)) ([]scenario.Result, error)
	// Score tries small changes of the document that some test should notice.
	Score(ctx context.Context, d *policy.Document, s *scenario.Suite, tenants func(string) (policy.TenantRecord, bool)) (scenario.Score, error)
	// Compare replays a log under both documents. progress is told the share done, 0 to 1.
	Compare(ctx context.Context, live, draft *policy.Document, log Log, tenants func(string) (policy.TenantRecord, bool), progress func(float64)) (decisionlog.Comparison, error)
}

// Log is a part of the decision log.
type Log = decisionlog.Log

// Confirmation is something that a publisher has to type or tick because a
// change is more than it looks like.
type Confirmation struct {
	Code string `json:"code"`           // "cut-half", "below-peak", "no-limits", "no-routes", "fail-open", …; stable
	Text string `json:"text"`           // what will happen, in numbers
	Word string `json:"word,omitempty"` // to be typed ("0 routes"); "" for a box to tick
}

// Impact is whom a change concerns. Numbers are as of when it was computed.
type Impact struct {
	Tenants        int64  `json:"tenants"`          // on the plan, or seen on the route; -1 unknown
	RequestsPerDay int64  `json:"requests_per_day"` // -1 unknown
	Source         string `json:"source"`           // "live counts of the last hour", "tenants on the plan"
}

// RatedChange is a change with its risk and its impact. It is stored with the version.
type RatedChange struct {
	policy.Change
	Impact *Impact `json:"impact,omitempty"` // nil for what concerns nobody in particular
}

// Approval is someone's word for exactly one content. It is void when document,
// tests or base change.
type Approval struct {
	ActorID string    `json:"actor_id"`
	Actor   string    `json:"actor"`
	Digest  string    `json:"digest"` // of document and tests together
	Base    int64     `json:"base"`
	Note    string    `json:"note"`
	At      time.Time `json:"at"`
}

// ApprovalRule asks for approvals when a change touches something.
type ApprovalRule struct {
	When      string   `json:"when"`           // any, looser, tighter, fail-mode, removal, credentials, unlimited, failing-tests
	Only      []string `json:"only,omitempty"` // limit ids, route and plan names that it holds for; empty: all
	Approvals int      `json:"approvals"`      // by so many others than the author, 1 to 3
}

// Needed is one rule that a draft meets and what it still lacks.
type Needed struct {
	Rule ApprovalRule `json:"rule"`
	Why  string       `json:"why"` // the change that met it
	Have int          `json:"have"`
}

// BreakGlass publishes without the approvals that a change needs.
type BreakGlass struct {
	Reason   string
	Password string // of the actor, again
}

// CanaryPlan says who gets a version first, and when that ends by itself.
type CanaryPlan struct {
	Count   int           `json:"count,omitempty"` // so many replicas; 0 when Zone is set
	Zone    string        `json:"zone,omitempty"`  // the replicas of a zone
	Hold    time.Duration `json:"hold"`            // at least so long before it may be promoted; 10 s to 24 h
	Promote bool          `json:"promote"`         // by itself after Hold, when the guards held
	// Guards: it stops by itself when a canary replica refuses the version, goes
	// silent or degrades, or when its share of refused decisions is above that of
	// the others by MaxRefusedRise (0.05 for five points) over at least 100 decisions.
	MaxRefusedRise float64 `json:"max_refused_rise"`
}

// RolloutState is the state of a canary.
type RolloutState string

// States of a canary. All but running are final.
const (
	RolloutRunning  RolloutState = "running"
	RolloutPromoted RolloutState = "promoted"
	RolloutStopped  RolloutState = "stopped" // a higher version with the old content followed
)

// Rollout is a version on its way to a few replicas before all others.
type Rollout struct {
	Version   int64
	Base      int64 // the version that the others enforce
	Plan      CanaryPlan
	Replicas  []string // ids that were picked
	State     RolloutState
	Author    string
	StartedAt time.Time
	EndedAt   *time.Time
	EndReason string // "refused 12 % against 1 % elsewhere", or an operator's words
	By        string // who ended it; "headgate" when it was a guard
	Successor int64  // the version that followed; 0 while running
}

// Schedule publishes a draft later.
type Schedule struct {
	Draft     string
	ETag      string // the draft as it was scheduled: any edit suspends
	At        time.Time
	Note      string
	Author    string
	AuthorID  string
	Confirmed map[string]string // as in PublishOptions
	Canary    *CanaryPlan
	CreatedAt time.Time
	Suspended string // why it will not happen by itself ("v43 was published since"); "" when it will
}

// Comment is a remark on a draft.
type Comment struct {
	ID     string // cmt_…
	Draft  string
	Author string
	Text   string
	At     time.Time
}

// Review is a publication by break-glass that somebody else has to look at.
type Review struct {
	Version  int64
	Author   string
	AuthorID string
	Reason   string
	Missing  []Needed
	At       time.Time
	ClosedBy string // "" while it is open
	ClosedAt *time.Time
	Note     string
}

// Trial is a simulation of a draft on the decision log.
type Trial struct {
	ID       string // sim_…
	Draft    string
	Digest   string // of the document that was tried
	Against  int64  // version
	From, To time.Time
	State    string  // running, done, failed
	Progress float64 // 0 to 1
	Problem  string  // why it failed
	Result   *decisionlog.Comparison
	Author   string
	At       time.Time
	SeenAt   time.Time // when its console last wrote that it runs
}

// Readiness is everything that a reviewer of a draft wants to know.
type Readiness struct {
	Draft         Draft
	Head          Version
	Digest        string // of document and tests: what an approval binds to
	Report        policy.Report
	Changes       []RatedChange   // against the version in force, the riskiest first
	Theirs        []policy.Change // published since the base
	Mine          []policy.Change
	Clashes       []string
	Tests         []scenario.Result
	TestProblems  policy.Report
	Confirmations []Confirmation
	Approvals     []Approval // that hold
	Voided        int        // that no longer do
	Needed        []Needed   // that are not met
	Comments      []Comment
	TestsSlow     bool     // the suite takes longer than a page waits; it runs when published
	TestsUnknown  string   // why the tests could not be run; "" when they ran, or there are none
	Writers       []string // ids of who wrote in it and cannot approve it
	TestsExcused  bool     // a rule lets failing tests through, with its approvals
	TestsChanged  bool     // against those of the version in force
	Trial         *Trial   // the newest of this content; nil when there is none
	Schedule      *Schedule
	Rollout       *Rollout // that runs now and must end first
}

// Stale reports whether someone published since the draft's base.
func (r Readiness) Stale() bool { return r.Draft.Base != r.Head.Number }

// Blocked says in one sentence why the draft cannot be published without
// break-glass; "" when it can.
func (r Readiness) Blocked() string {
	switch {
	case !r.Report.OK():
		return "The document has problems."
	case !r.TestProblems.OK():
		return "The tests cannot be read."
	case r.Stale():
		return "Someone published since this draft was begun."
	case r.Rollout != nil:
		return "A canary is running: promote or stop it first."
	case len(r.Changes) == 0 && !r.TestsChanged:
		return "Nothing would change."
	}
	for _, t := range r.Tests {
		if !t.Passed && !r.TestsExcused {
			return "Tests fail."
		}
	}
	if len(r.Needed) > 0 {
		return "Approvals are missing."
	}
	return ""
}

// PublishOptions is how a draft is published.
type PublishOptions struct {
	Note      string
	Confirmed map[string]string // by Confirmation.Code: the word that was typed, or "yes"
	// ConfirmTypedOnly asks for typed confirmations alone: the caller does not know
	// of the others, which are in Proof.Unconfirmed then.
	ConfirmTypedOnly bool
	BreakGlass       *BreakGlass // nil: within the rules
	Canary           *CanaryPlan // nil: on all gateways at once
}
