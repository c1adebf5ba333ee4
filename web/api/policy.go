package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// documentBody is the largest request that carries a document, in bytes.
const documentBody = 8<<20 + 32<<10

// Version is a published policy.
type Version struct {
	Version    int64           `json:"version"`
	Digest     string          `json:"digest"`
	Parent     string          `json:"parent" doc:"Digest of the version before; empty for the first"`
	Kind       string          `json:"kind" enum:"publish,rollback"`
	RollbackOf int64           `json:"rollback_of,omitempty"`
	Author     string          `json:"author"`
	Note       string          `json:"note"`
	CreatedAt  time.Time       `json:"created_at"`
	Document   json.RawMessage `json:"document,omitempty" doc:"The policy in its canonical form; absent in lists"`
	Changes    []policy.Change `json:"changes,omitempty" doc:"Against the version before"`
}

func versionOf(v console.Version) Version {
	return Version{Version: v.Number, Digest: v.Digest, Parent: v.Parent, Kind: string(v.Kind), RollbackOf: v.RollbackOf,
		Author: v.Author, Note: v.Note, CreatedAt: v.CreatedAt, Document: v.Body, Changes: console.PlainChanges(v.Changes)}
}

func versionInList(v console.Version) Version {
	out := versionOf(v)
	out.Document = nil
	return out
}

// Report is what validation found.
type Report struct {
	Problems []PolicyProblem `json:"problems"`
	Warnings []PolicyProblem `json:"warnings"`
}

// Published is a new version and how far it has got.
type Published struct {
	Version     int64    `json:"version"`
	Digest      string   `json:"digest"`
	ConvergedOn *int     `json:"converged_on,omitempty" doc:"Gateways that enforce it; absent when nobody waited, or when it is unknown"`
	Of          *int     `json:"of,omitempty" doc:"Gateways that are not gone; absent when that is unknown"`
	AfterMS     *float64 `json:"after_ms,omitempty"`
	Nacks       []NACK   `json:"nacks,omitempty" doc:"Gateways that refuse it, and why"`
}

type (
	// VersionPath names a version. Exported, as the framework reads only exported parts.
	VersionPath struct {
		Version int64 `path:"version" minimum:"1"`
	}
	diffIn struct {
		VersionPath
		Against int64 `query:"against" minimum:"0" required:"true" doc:"The version to compare with; 0 is the empty policy"`
	}
	versionDiff struct {
		Version int64           `json:"version"`
		Against int64           `json:"against"`
		Changes []policy.Change `json:"changes"`
	}
	validateIn struct {
		Body struct {
			Document Document `json:"document"`
		}
	}
	publishBody struct {
		Document    Document `json:"document"`
		BaseVersion int64    `json:"base_version" minimum:"0" doc:"The version it was made from; 0 before the first"`
		Note        string   `json:"note,omitempty" maxLength:"2000"`
	}
	publishIn struct {
		Waiting
		Repeatable
		Body publishBody
	}
	rollbackIn struct {
		VersionPath
		Waiting
		Repeatable
		Body struct {
			Note string `json:"note,omitempty" maxLength:"2000"`
		}
	}
	publishedOut struct {
		Status int `json:"-"`
		Body   Published
	}
)

func (a *API) registerPolicy() {
	register(a, op{id: "get-policy", method: "GET", path: "/policy", summary: "Get the policy in force", perm: console.PermView, errors: []int{404}}, a.getPolicy)
	register(a, op{id: "list-policy-versions", method: "GET", path: "/policy/versions", summary: "List versions", perm: console.PermView}, a.listVersions)
	register(a, op{id: "get-policy-version", method: "GET", path: "/policy/versions/{version}", summary: "Get a version", perm: console.PermView, errors: []int{404}}, a.getVersion)
	register(a, op{id: "diff-policy-version", method: "GET", path: "/policy/versions/{version}/diff", summary: "Compare two versions", perm: console.PermView, errors: []int{404}}, a.diffVersion)
	register(a, op{id: "validate-policy", method: "POST", path: "/policy/validate", summary: "Check a document", perm: console.PermView, body: documentBody, errors: []int{413}}, a.validatePolicy)
	register(a, op{id: "publish-policy", method: "POST", path: "/policy/publish", summary: "Publish a document", perm: console.PermPublish, body: documentBody, errors: []int{409, 413}}, a.publishPolicy)
	register(a, op{id: "rollback-policy", method: "POST", path: "/policy/versions/{version}/rollback", summary: "Publish the content of an old version again", perm: console.PermPublish, errors: []int{404, 409}}, a.rollbackPolicy)
}

func (a *API) getPolicy(ctx context.Context, _ *struct{}) (*Body[Version], error) {
	v, ok, err := a.Policies.Head(ctx)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, newProblem(http.StatusNotFound, "Nothing has been published yet.").as(string(console.CodeNotFound))
	}
	return &Body[Version]{versionOf(v)}, nil
}

func (a *API) listVersions(ctx context.Context, in *Paging) (*Body[List[Version]], error) {
	items, next, err := a.Policies.Versions(ctx, in.page())
	if err != nil {
		return nil, err
	}
	return &Body[List[Version]]{listOf(items, next, versionInList)}, nil
}

func (a *API) getVersion(ctx context.Context, in *VersionPath) (*Body[Version], error) {
	v, err := a.Policies.Version(ctx, in.Version)
	if err != nil {
		return nil, err
	}
	return &Body[Version]{versionOf(v)}, nil
}

func (a *API) diffVersion(ctx context.Context, in *diffIn) (*Body[versionDiff], error) {
	changes, err := a.Policies.Diff(ctx, in.Against, in.Version)
	if err != nil {
		return nil, err
	}
	if changes == nil {
		changes = []policy.Change{}
	}
	return &Body[versionDiff]{versionDiff{Version: in.Version, Against: in.Against, Changes: changes}}, nil
}

// alone lets one large document in at a time.
func (a *API) alone(ctx context.Context, src []byte) (release func(), err error) {
	if len(src) < largeBody {
		return func() {}, nil
	}
	select {
	case a.large <- struct{}{}:
		return func() { <-a.large }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (a *API) validatePolicy(ctx context.Context, in *validateIn) (*Body[Report], error) {
	release, err := a.alone(ctx, in.Body.Document.source)
	if err != nil {
		return nil, err
	}
	defer release()
	_, report := a.Policies.Validate(ctx, in.Body.Document.source)
	return &Body[Report]{Report{Problems: policyProblems(report.Problems), Warnings: policyProblems(report.Warnings)}}, nil
}

func (a *API) publishPolicy(ctx context.Context, in *publishIn) (*publishedOut, error) {
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	release, err := a.alone(ctx, in.Body.Document.source)
	if err != nil {
		return nil, err
	}
	request := struct {
		Document, Note string
		Base           int64
	}{policy.DigestOf(in.Body.Document.source), in.Body.Note, in.Body.BaseVersion}
	out, err := once(ctx, a, "policy.publish", in.Repeatable, request, false, samePublished, func() (*publishedOut, error) {
		v, err := a.Policies.Publish(ctx, actorOf(ctx), in.Body.Document.source, nil, in.Body.BaseVersion, console.PublishOptions{Note: in.Body.Note})
		return published(v, err)
	})
	release()
	if err != nil {
		return nil, err
	}
	return a.followed(ctx, out, in.Waiting)
}

func samePublished(p *publishedOut) any { return p }

func published(v console.Version, err error) (*publishedOut, error) {
	if err != nil {
		return nil, err
	}
	return &publishedOut{Status: http.StatusOK, Body: Published{Version: v.Number, Digest: v.Digest}}, nil
}

// followed waits, where that was asked for, until every gateway enforces the
// version: 200 when all do, 202 when it is stored but not yet everywhere.
func (a *API) followed(ctx context.Context, out *publishedOut, w Waiting) (*publishedOut, error) {
	out.Status = http.StatusOK
	d, err := w.duration()
	if err != nil || d == 0 {
		return out, err
	}
	c := a.Fleet.WaitVersion(ctx, out.Body.Version, d)
	if c.Known {
		out.Body.ConvergedOn, out.Body.Of, out.Body.AfterMS = new(c.On), new(c.Of), new(millis(c.After))
	}
	for _, n := range c.Nacks {
		out.Body.Nacks = append(out.Body.Nacks, nackOf(n.Replica, n.NACK))
	}
	if !c.Known || c.On < c.Of {
		out.Status = http.StatusAccepted
	}
	return out, nil
}

func (a *API) rollbackPolicy(ctx context.Context, in *rollbackIn) (*publishedOut, error) {
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	request := fmt.Sprint(in.Version, in.Body.Note)
	out, err := once(ctx, a, "policy.rollback", in.Repeatable, request, false, samePublished, func() (*publishedOut, error) {
		v, err := a.Policies.Rollback(ctx, actorOf(ctx), in.Version, console.PublishOptions{Note: in.Body.Note})
		return published(v, err)
	})
	if err != nil {
		return nil, err
	}
	return a.followed(ctx, out, in.Waiting)
}
