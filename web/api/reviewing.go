package api

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

// Comment is a remark on a draft.
type Comment struct {
	ID     string    `json:"id" example:"cmt_abcdefghij234567"`
	Author string    `json:"author"`
	Text   string    `json:"text"`
	At     time.Time `json:"at"`
}

func commentOf(c console.Comment) Comment {
	return Comment{ID: c.ID, Author: c.Author, Text: c.Text, At: c.At}
}

// Schedule publishes a draft at a time.
type Schedule struct {
	Draft     string            `json:"draft"`
	At        time.Time         `json:"at"`
	Note      string            `json:"note"`
	Author    string            `json:"author"`
	Confirmed map[string]string `json:"confirmed,omitempty"`
	Canary    *Canary           `json:"canary,omitempty"`
	CreatedAt time.Time         `json:"created_at"`
	Suspended string            `json:"suspended,omitempty" doc:"Why it will not happen by itself"`
}

func scheduleOf(s console.Schedule) Schedule {
	out := Schedule{
		Draft: s.Draft, At: s.At, Note: s.Note, Author: s.Author, Confirmed: s.Confirmed, CreatedAt: s.CreatedAt, Suspended: s.Suspended,
	}
	if s.Canary != nil {
		out.Canary = new(canaryOf(*s.Canary))
	}
	return out
}

func canaryOf(p console.CanaryPlan) Canary {
	return Canary{Count: p.Count, Zone: p.Zone, Hold: p.Hold.String(), Promote: p.Promote, MaxRefusedRise: p.MaxRefusedRise}
}

// Readiness is everything that a reviewer of a draft wants to know.
type Readiness struct {
	Draft         Draft                  `json:"draft" doc:"Without document and tests"`
	HeadVersion   int64                  `json:"head_version" doc:"The version in force; 0 before the first"`
	Digest        string                 `json:"digest" doc:"Of document and tests: what an approval binds to"`
	Blocked       string                 `json:"blocked" doc:"Why it cannot be published; empty when it can"`
	Stale         bool                   `json:"stale" doc:"Someone published since its base"`
	Problems      []PolicyProblem        `json:"problems"`
	Warnings      []PolicyProblem        `json:"warnings"`
	Changes       []console.RatedChange  `json:"changes" doc:"Against the version in force, the riskiest first"`
	Theirs        []policy.Change        `json:"theirs,omitempty" doc:"On a stale base: what was published since"`
	Mine          []policy.Change        `json:"mine,omitempty" doc:"On a stale base: what the draft changes"`
	Clashes       []string               `json:"clashes,omitempty" doc:"On a stale base: places that both changed"`
	TestResults   []scenario.Result      `json:"test_results"`
	TestProblems  []PolicyProblem        `json:"test_problems" doc:"Paths are relative to the tests"`
	TestsPending  string                 `json:"tests_pending,omitempty" doc:"Why the tests have no result yet"`
	TestsExcused  bool                   `json:"tests_excused" doc:"A rule lets failing tests through, with its approvals"`
	Confirmations []console.Confirmation `json:"confirmations" doc:"What its publisher has to say is meant"`
	Approvals     []console.Approval     `json:"approvals" doc:"Those that hold"`
	Voided        int                    `json:"voided" doc:"Approvals of another content or base"`
	Needed        []console.Needed       `json:"needed" doc:"Rules that are not met yet"`
	Comments      []Comment              `json:"comments"`
	Schedule      *Schedule              `json:"schedule,omitempty"`
	Trial         *Trial                 `json:"trial,omitempty" doc:"The newest simulation of this content"`
	Rollout       *Rollout               `json:"rollout,omitempty" doc:"A canary that has to end first"`
}

func readinessOf(r console.Readiness) Readiness {
	out := Readiness{
		Draft: draftInList(r.Draft), HeadVersion: r.Head.Number, Digest: r.Digest, Blocked: r.Blocked(), Stale: r.Stale(),
		Problems: PolicyProblems(r.Report.Problems), Warnings: PolicyProblems(r.Report.Warnings), Changes: orEmpty(r.Changes),
		TestResults: orEmpty(r.Tests), TestProblems: PolicyProblems(r.TestProblems.Problems), TestsPending: r.TestsUnknown, TestsExcused: r.TestsExcused,
		Confirmations: orEmpty(r.Confirmations), Approvals: orEmpty(r.Approvals), Voided: r.Voided, Needed: orEmpty(r.Needed),
		Comments: listOf(r.Comments, "", commentOf).Items,
	}
	if out.Stale {
		out.Theirs, out.Mine, out.Clashes = r.Theirs, r.Mine, r.Clashes
	}
	if r.TestsSlow {
		out.TestsPending = "They take long: they run when it is published."
	}
	if r.Schedule != nil {
		out.Schedule = new(scheduleOf(*r.Schedule))
	}
	if r.Trial != nil {
		out.Trial = new(trialOf(*r.Trial))
	}
	if r.Rollout != nil {
		out.Rollout = new(rolloutOf(*r.Rollout))
	}
	return out
}

// orEmpty makes a list that JSON shows as one.
func orEmpty[T any](in []T) []T {
	if in == nil {
		return []T{}
	}
	return in
}

type (
	commentIn struct {
		DraftPath
		Body struct {
			Text string `json:"text" maxLength:"2000"`
		}
	}
	approveIn struct {
		DraftPath
		Body struct {
			Digest string `json:"digest" maxLength:"200" doc:"Of the readiness that was looked at: another content is not approved"`
			Note   string `json:"note,omitempty" maxLength:"2000"`
		}
	}
	scheduleIn struct {
		DraftPath
		Matching
		Body struct {
			At      time.Time         `json:"at"`
			Note    string            `json:"note,omitempty" maxLength:"2000"`
			Confirm map[string]string `json:"confirm,omitempty"`
			Canary  *Canary           `json:"canary,omitempty"`
		}
	}
	readinessOut struct {
		ETag string `header:"ETag"`
		Body Readiness
	}
)

func (a *API) registerReviewing() {
	register(a, op{id: "get-draft-readiness", method: "GET", path: "/policy/drafts/{draft}/readiness", summary: "What a draft changes, and what it lacks to be published", perm: console.PermView, errors: []int{404}}, a.readiness)
	register(a, op{id: "list-draft-comments", method: "GET", path: "/policy/drafts/{draft}/comments", summary: "List a draft's comments, oldest first", perm: console.PermView, errors: []int{404}}, a.listComments)
	register(a, op{id: "comment-draft", method: "POST", path: "/policy/drafts/{draft}/comments", summary: "Comment on a draft", perm: console.PermEditDrafts, status: 201, errors: []int{404, 409}}, a.comment)
	register(a, op{id: "approve-draft", method: "POST", path: "/policy/drafts/{draft}/approve", summary: "Approve a draft that others wrote", perm: console.PermApprove, errors: []int{404, 409}}, a.approve)
	register(a, op{id: "withdraw-approval", method: "POST", path: "/policy/drafts/{draft}/withdraw", summary: "Take one's approval of a draft back", perm: console.PermApprove, status: 204, errors: []int{404}}, a.withdraw)
	register(a, op{id: "schedule-draft", method: "PUT", path: "/policy/drafts/{draft}/schedule", summary: "Publish a draft at a time", perm: console.PermPublish, errors: []int{404, 409, 412, 428}}, a.schedule)
	register(a, op{id: "unschedule-draft", method: "DELETE", path: "/policy/drafts/{draft}/schedule", summary: "Take a schedule back", perm: console.PermPublish, status: 204, errors: []int{404}}, a.unschedule)
	register(a, op{id: "list-schedules", method: "GET", path: "/policy/schedules", summary: "List schedules, soonest first", perm: console.PermView}, a.listSchedules)
	register(a, op{id: "score-draft-tests", method: "POST", path: "/policy/drafts/{draft}/score", summary: "Which small changes a draft's tests would not notice; takes up to 20 s", perm: console.PermEditDrafts, errors: []int{404}}, a.score)
}

func (a *API) readiness(ctx context.Context, in *DraftPath) (*readinessOut, error) {
	r, err := a.Policies.Ready(ctx, actorOf(ctx), in.Draft)
	if err != nil {
		return nil, err
	}
	return &readinessOut{ETag: quoted(r.Draft.ETag), Body: readinessOf(r)}, nil
}

// hasDraft is the error of a draft that there is not. One that was published keeps
// what was said and tried.
func (a *API) hasDraft(ctx context.Context, id string) error {
	if _, err := a.Policies.GetDraft(ctx, id); console.IsNotFound(err) {
		return err
	}
	return nil
}

func (a *API) listComments(ctx context.Context, in *DraftPath) (*Body[List[Comment]], error) {
	items, err := a.Policies.Comments(ctx, in.Draft)
	if err == nil && len(items) == 0 {
		err = a.hasDraft(ctx, in.Draft)
	}
	if err != nil {
		return nil, err
	}
	return &Body[List[Comment]]{listOf(items, "", commentOf)}, nil
}

func (a *API) comment(ctx context.Context, in *commentIn) (*Body[Comment], error) {
	c, err := a.Policies.Comment(ctx, actorOf(ctx), in.Draft, in.Body.Text)
	if err != nil {
		return nil, err
	}
	return &Body[Comment]{commentOf(c)}, nil
}

func (a *API) approve(ctx context.Context, in *approveIn) (*Body[console.Approval], error) {
	approval, err := a.Policies.Approve(ctx, actorOf(ctx), in.Draft, in.Body.Digest, in.Body.Note)
	if err != nil {
		return nil, err
	}
	return &Body[console.Approval]{approval}, nil
}

func (a *API) withdraw(ctx context.Context, in *DraftPath) (*struct{}, error) {
	return nil, a.Policies.Withdraw(ctx, actorOf(ctx), in.Draft)
}

func (a *API) schedule(ctx context.Context, in *scheduleIn) (*Body[Schedule], error) {
	etag, err := a.etagOf(ctx, in.Draft, in.Matching)
	if err != nil {
		return nil, err
	}
	o, err := Options{Note: in.Body.Note, Confirm: in.Body.Confirm, Canary: in.Body.Canary}.options()
	if err != nil {
		return nil, err
	}
	o.ConfirmTypedOnly = false // nobody is there to read warnings when its time comes
	s, err := a.Policies.ScheduleDraft(ctx, actorOf(ctx), in.Draft, etag, in.Body.At, o)
	if err != nil {
		return nil, err
	}
	return &Body[Schedule]{scheduleOf(s)}, nil
}

func (a *API) unschedule(ctx context.Context, in *DraftPath) (*struct{}, error) {
	return nil, a.Policies.Unschedule(ctx, actorOf(ctx), in.Draft)
}

func (a *API) listSchedules(ctx context.Context, _ *struct{}) (*Body[List[Schedule]], error) {
	items, err := a.Policies.Schedules(ctx)
	if err != nil {
		return nil, err
	}
	return &Body[List[Schedule]]{listOf(items, "", scheduleOf)}, nil
}

func (a *API) score(ctx context.Context, in *DraftPath) (*Body[scenario.Score], error) {
	score, err := a.Policies.Score(ctx, actorOf(ctx), in.Draft)
	if err != nil {
		return nil, err
	}
	score.Mutants = orEmpty(score.Mutants)
	return &Body[scenario.Score]{score}, nil
}
