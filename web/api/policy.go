package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

// The largest requests, in bytes: with a document, and with its tests, too.
const (
	documentBody   = 8<<20 + 32<<10
	withTestsBody  = documentBody + 1<<20
	testsAloneBody = 1<<20 + 32<<10
)

// Version is a published policy.
type Version struct {
	Version    int64                 `json:"version"`
	Digest     string                `json:"digest"`
	Parent     string                `json:"parent" doc:"Digest of the version before; empty for the first"`
	Kind       string                `json:"kind" enum:"publish,rollback,adopt"`
	RollbackOf int64                 `json:"rollback_of,omitempty"`
	Author     string                `json:"author"`
	Note       string                `json:"note"`
	CreatedAt  time.Time             `json:"created_at"`
	Document   json.RawMessage       `json:"document,omitempty" doc:"The policy in its canonical form; absent in lists"`
	Tests      string                `json:"tests,omitempty" doc:"The tests that it was published with, YAML; absent in lists"`
	Changes    []console.RatedChange `json:"changes,omitempty" doc:"Against the version before, with whom they concerned then"`

	Approvals   []console.Approval     `json:"approvals,omitempty"`
	Confirmed   []console.Confirmation `json:"confirmed,omitempty" doc:"What its publisher said is meant"`
	TestResults []scenario.Result      `json:"test_results,omitempty" doc:"How its tests went; absent in lists"`
	BreakGlass  string                 `json:"break_glass,omitempty" doc:"Why it was published without the approvals that it needed"`
	Missing     []console.Needed       `json:"missing,omitempty" doc:"The approvals that break-glass went without"`
	Trial       string                 `json:"trial,omitempty" doc:"The newest simulation of this content"`
	Scheduled   *time.Time             `json:"scheduled,omitempty" doc:"When it was to be published"`
	Draft       string                 `json:"draft,omitempty" doc:"The draft that it came from, whose comments are kept"`
}

func versionOf(v console.Version) Version {
	return Version{
		Version: v.Number, Digest: v.Digest, Parent: v.Parent, Kind: string(v.Kind), RollbackOf: v.RollbackOf,
		Author: v.Author, Note: v.Note, CreatedAt: v.CreatedAt, Document: v.Body, Tests: v.Tests, Changes: v.Changes,
		Approvals: v.Proof.Approvals, Confirmed: v.Proof.Confirmed, TestResults: v.Proof.Tests, BreakGlass: v.Proof.BreakGlass,
		Missing: v.Proof.Missing, Trial: v.Proof.Trial, Scheduled: v.Proof.Scheduled, Draft: v.Proof.Draft,
	}
}

func versionInList(v console.Version) Version {
	out := versionOf(v)
	out.Document, out.Tests, out.TestResults = nil, "", nil
	return out
}

// Report is what validation found.
type Report struct {
	Problems []PolicyProblem `json:"problems"`
	Warnings []PolicyProblem `json:"warnings"`
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
	testIn struct {
		Body struct {
			Document *Document `json:"document,omitempty" doc:"The policy in force when left out"`
			Tests    *Tests    `json:"tests,omitempty" doc:"Those of the policy in force when left out"`
		}
	}
	// testRun is how tests went. Nothing ran when document or tests have problems.
	testRun struct {
		Problems     []PolicyProblem   `json:"problems" doc:"Of the document"`
		TestProblems []PolicyProblem   `json:"test_problems" doc:"Of the tests; paths are relative to them"`
		Warnings     []PolicyProblem   `json:"warnings" doc:"Of the tests"`
		Results      []scenario.Result `json:"results"`
		Passed       bool              `json:"passed" doc:"There are no problems, and every test passed"`
	}
	validateIn struct {
		Body struct {
			Document Document `json:"document"`
		}
	}
	publishBody struct {
		Document    Document `json:"document"`
		Tests       *Tests   `json:"tests,omitempty" doc:"Those of the version in force when left out"`
		BaseVersion int64    `json:"base_version" minimum:"0" doc:"The version it was made from; 0 before the first"`
		Options
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
		Body Options
	}
)

func (a *API) registerPolicy() {
	register(a, op{id: "get-policy", method: "GET", path: "/policy", summary: "Get the policy in force", perm: console.PermView, errors: []int{404}}, a.getPolicy)
	register(a, op{id: "list-policy-versions", method: "GET", path: "/policy/versions", summary: "List versions", perm: console.PermView}, a.listVersions)
	register(a, op{id: "get-policy-version", method: "GET", path: "/policy/versions/{version}", summary: "Get a version", perm: console.PermView, errors: []int{404}}, a.getVersion)
	register(a, op{id: "diff-policy-version", method: "GET", path: "/policy/versions/{version}/diff", summary: "Compare two versions", perm: console.PermView, errors: []int{404}}, a.diffVersion)
	register(a, op{id: "validate-policy", method: "POST", path: "/policy/validate", summary: "Check a document", perm: console.PermView, body: documentBody, errors: []int{413}}, a.validatePolicy)
	register(a, op{id: "test-policy", method: "POST", path: "/policy/test", summary: "Run tests against a document, with the tenants of this console", perm: console.PermEditDrafts, body: withTestsBody, errors: []int{404, 413}}, a.testPolicy)
	register(a, op{id: "publish-policy", method: "POST", path: "/policy/publish", summary: "Publish a document", perm: console.PermPublish, body: withTestsBody, errors: []int{409, 413}}, a.publishPolicy)
	register(a, op{id: "rollback-policy", method: "POST", path: "/policy/versions/{version}/rollback", summary: "Publish the content of an old version again", perm: console.PermPublish, errors: []int{404, 409}}, a.rollbackPolicy)
}

func (a *API) getPolicy(ctx context.Context, _ *struct{}) (*Body[Version], error) {
	v, ok, err := a.Policies.Head(ctx)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, nothingPublished()
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
	return &Body[Report]{Report{Problems: PolicyProblems(report.Problems), Warnings: PolicyProblems(report.Warnings)}}, nil
}

func (a *API) testPolicy(ctx context.Context, in *testIn) (*Body[testRun], error) {
	src, tests, err := a.orInForce(ctx, in.Body.Document, in.Body.Tests)
	if err != nil {
		return nil, err
	}
	release, err := a.alone(ctx, src)
	if err != nil {
		return nil, err
	}
	defer release()
	doc, report := a.Policies.Validate(ctx, src)
	out := testRun{Problems: PolicyProblems(report.Problems), TestProblems: []PolicyProblem{}, Warnings: []PolicyProblem{}, Results: []scenario.Result{}}
	if doc == nil || !report.OK() {
		return &Body[testRun]{out}, nil
	}
	results, suite, err := a.Policies.RunTests(ctx, doc, tests)
	if err != nil {
		return nil, err
	}
	out.TestProblems, out.Warnings = PolicyProblems(suite.Problems), PolicyProblems(suite.Warnings)
	out.Results = append(out.Results, results...)
	out.Passed = suite.OK() && !slices.ContainsFunc(results, func(r scenario.Result) bool { return !r.Passed })
	return &Body[testRun]{out}, nil
}

// orInForce is a document and tests, each that in force when it was left out.
func (a *API) orInForce(ctx context.Context, d *Document, t *Tests) (src, tests []byte, err error) {
	if d != nil && t != nil {
		return d.source, t.source, nil
	}
	head, ok, err := a.Policies.Head(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !ok {
		return nil, nil, nothingPublished()
	}
	src, tests = head.Body, []byte(head.Tests)
	if d != nil {
		src = d.source
	}
	if t != nil {
		tests = t.source
	}
	return src, tests, nil
}

func nothingPublished() *Problem {
	return newProblem(http.StatusNotFound, "Nothing has been published yet.").as(string(console.CodeNotFound))
}
