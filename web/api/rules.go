package api

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
)

// Review is a publication by break-glass that somebody else looks at.
type Review struct {
	Version  int64            `json:"version"`
	Author   string           `json:"author"`
	Reason   string           `json:"reason" doc:"Why it was published without approvals"`
	Missing  []console.Needed `json:"missing" doc:"The approvals that it went without"`
	At       time.Time        `json:"at"`
	Open     bool             `json:"open"`
	ClosedBy string           `json:"closed_by,omitempty"`
	ClosedAt *time.Time       `json:"closed_at,omitempty"`
	Note     string           `json:"note,omitempty"`
}

func reviewOf(r console.Review) Review {
	return Review{
		Version: r.Version, Author: r.Author, Reason: r.Reason, Missing: orEmpty(r.Missing), At: r.At, Open: r.ClosedAt == nil,
		ClosedBy: r.ClosedBy, ClosedAt: r.ClosedAt, Note: r.Note,
	}
}

type (
	reviewsIn struct {
		Open bool `query:"open" doc:"Those alone that nobody has looked at"`
	}
	closeReviewIn struct {
		VersionPath
		Body struct {
			Note string `json:"note" maxLength:"2000"`
		}
	}
	approvalRules struct {
		Rules []console.ApprovalRule `json:"rules" nullable:"false" doc:"None: nothing needs approvals"`
	}
	approvalRulesIn struct {
		Body approvalRules
	}
)

func (a *API) registerRules() {
	register(a, op{id: "list-reviews", method: "GET", path: "/policy/reviews", summary: "List publications by break-glass, open ones first", perm: console.PermView}, a.listReviews)
	register(a, op{id: "close-review", method: "POST", path: "/policy/reviews/{version}/close", summary: "Say that a publication by break-glass was looked at", perm: console.PermApprove, status: 204, errors: []int{404, 409}}, a.closeReview)
	register(a, op{id: "get-approval-rules", method: "GET", path: "/policy/approval-rules", summary: "Get which changes need approvals", perm: console.PermView}, a.getRules)
	register(a, op{id: "set-approval-rules", method: "PUT", path: "/policy/approval-rules", summary: "Say which changes need approvals", perm: console.PermManageRules}, a.setRules)
}

func (a *API) listReviews(ctx context.Context, in *reviewsIn) (*Body[List[Review]], error) {
	items, err := a.Policies.Reviews(ctx, in.Open)
	if err != nil {
		return nil, err
	}
	return &Body[List[Review]]{listOf(items, "", reviewOf)}, nil
}

func (a *API) closeReview(ctx context.Context, in *closeReviewIn) (*struct{}, error) {
	return nil, a.Policies.CloseReview(ctx, actorOf(ctx), in.Version, in.Body.Note)
}

func (a *API) getRules(ctx context.Context, _ *struct{}) (*Body[approvalRules], error) {
	rules, err := a.Policies.ApprovalRules(ctx)
	if err != nil {
		return nil, err
	}
	return &Body[approvalRules]{approvalRules{orEmpty(rules)}}, nil
}

func (a *API) setRules(ctx context.Context, in *approvalRulesIn) (*Body[approvalRules], error) {
	if err := a.Policies.SetApprovalRules(ctx, actorOf(ctx), in.Body.Rules); err != nil {
		return nil, err
	}
	return a.getRules(ctx, nil)
}
