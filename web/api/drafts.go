package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/console"
)

// Draft is a policy change being edited.
type Draft struct {
	ID          string    `json:"id" example:"drf_abcdefghij234567"`
	Name        string    `json:"name"`
	BaseVersion int64     `json:"base_version"`
	Document    string    `json:"document,omitempty" doc:"YAML; absent in lists"`
	Tests       string    `json:"tests,omitempty" doc:"YAML; absent in lists, and when there are none"`
	Author      string    `json:"author"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
}

func draftOf(d console.Draft) Draft {
	return Draft{ID: d.ID, Name: d.Name, BaseVersion: d.Base, Document: d.Source, Tests: d.Tests, Author: d.Author, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt}
}

func draftInList(d console.Draft) Draft {
	out := draftOf(d)
	out.Document, out.Tests = "", ""
	return out
}

type (
	// DraftPath names a draft. Exported, as the framework reads only exported parts.
	DraftPath struct {
		Draft string `path:"draft" maxLength:"64"`
	}
	// Matching says which state of a draft the request was made from. Exported, as the framework reads only exported parts.
	Matching struct {
		IfMatch string `header:"If-Match" maxLength:"512" doc:"The ETag of the draft as it was read, one of several, or * for whatever it is now; compulsory"`
	}
	newDraft struct {
		Name     string    `json:"name" maxLength:"200"`
		Document *Document `json:"document,omitempty" doc:"The policy in force when left out"`
	}
	draftCreateIn struct {
		Repeatable
		Body newDraft
	}
	draftSaveIn struct {
		DraftPath
		Matching
		Body struct {
			Document Document `json:"document"`
		}
	}
	draftDeleteIn struct {
		DraftPath
		Matching
	}
	draftPublishIn struct {
		DraftPath
		Matching
		Waiting
		Body Options
	}
	draftTestsIn struct {
		DraftPath
		Matching
		Body struct {
			Tests Tests `json:"tests"`
		}
	}
	draftRenameIn struct {
		DraftPath
		Matching
		Body struct {
			Name string `json:"name" maxLength:"200"`
		}
	}
	draftTests struct {
		Tests string `json:"tests" doc:"YAML; empty when there are none"`
	}
	draftTestsOut struct {
		ETag string `header:"ETag"`
		Body draftTests
	}
	mergedDraft struct {
		Draft
		Clashes []string `json:"clashes" doc:"Places that both changed; the draft's stayed"`
	}
	mergedOut struct {
		ETag string `header:"ETag"`
		Body mergedDraft
	}
	draftOut struct {
		ETag string `header:"ETag"`
		Body Draft
	}
)

// etagOf is the ETag that a request was made from, as If-Match says it (RFC 9110,
// 13.1.1): "*" is whatever the draft is now, one of a list is enough, and a weak
// one never matches.
func (a *API) etagOf(ctx context.Context, draft string, m Matching) (string, error) {
	given := strings.TrimSpace(m.IfMatch)
	if given == "" {
		return "", newProblem(http.StatusPreconditionRequired, "Send the draft's ETag as If-Match.")
	}
	tags := strings.Split(given, ",")
	if given != "*" && len(tags) == 1 && !strings.HasPrefix(given, "W/") {
		return strings.Trim(given, `"`), nil
	}
	d, err := a.Policies.GetDraft(ctx, draft)
	if err != nil {
		return "", err
	}
	if given == "*" || slices.ContainsFunc(tags, func(t string) bool { return strings.Trim(t, " \t") == quoted(d.ETag) }) {
		return d.ETag, nil
	}
	return "", newProblem(http.StatusPreconditionFailed, "The draft's ETag is none of those in If-Match; a weak one never matches.")
}

func shown(d console.Draft) *draftOut { return &draftOut{ETag: quoted(d.ETag), Body: draftOf(d)} }

func shownUnless(d console.Draft, err error) (*draftOut, error) {
	if err != nil {
		return nil, err
	}
	return shown(d), nil
}

// quoted is an ETag as HTTP writes it.
func quoted(etag string) string { return `"` + etag + `"` }

func (a *API) registerDrafts() {
	register(a, op{id: "list-drafts", method: "GET", path: "/policy/drafts", summary: "List drafts", perm: console.PermView}, a.listDrafts)
	register(a, op{id: "create-draft", method: "POST", path: "/policy/drafts", summary: "Start a draft", perm: console.PermEditDrafts, status: 201, body: documentBody, errors: []int{409, 413}}, a.createDraft)
	register(a, op{id: "get-draft", method: "GET", path: "/policy/drafts/{draft}", summary: "Get a draft; 410 names the version that it was published as", perm: console.PermView, errors: []int{404, 410}}, a.getDraft)
	register(a, op{id: "save-draft", method: "PUT", path: "/policy/drafts/{draft}", summary: "Replace a draft's document", perm: console.PermEditDrafts, body: documentBody, errors: []int{404, 412, 413, 428}}, a.saveDraft)
	register(a, op{id: "delete-draft", method: "DELETE", path: "/policy/drafts/{draft}", summary: "Delete a draft", perm: console.PermEditDrafts, status: 204, errors: []int{404, 412, 428}}, a.deleteDraft)
	register(a, op{id: "rebase-draft", method: "POST", path: "/policy/drafts/{draft}/rebase", summary: "Base a draft on the policy in force, its document unchanged", perm: console.PermEditDrafts, errors: []int{404, 412, 428}}, a.rebaseDraft)
	register(a, op{id: "rename-draft", method: "PATCH", path: "/policy/drafts/{draft}", summary: "Rename a draft; its approvals stay", perm: console.PermEditDrafts, errors: []int{404, 412, 428}}, a.renameDraft)
	register(a, op{id: "get-draft-tests", method: "GET", path: "/policy/drafts/{draft}/tests", summary: "Get a draft's tests", perm: console.PermView, errors: []int{404}}, a.getDraftTests)
	register(a, op{id: "save-draft-tests", method: "PUT", path: "/policy/drafts/{draft}/tests", summary: "Replace a draft's tests", perm: console.PermEditDrafts, body: testsAloneBody, errors: []int{404, 412, 413, 428}}, a.saveDraftTests)
	register(a, op{id: "merge-draft", method: "POST", path: "/policy/drafts/{draft}/merge", summary: "Put what was published since into a draft, and base it on the policy in force", perm: console.PermEditDrafts, errors: []int{404, 412, 428}}, a.mergeDraft)
	register(a, op{id: "publish-draft", method: "POST", path: "/policy/drafts/{draft}/publish", summary: "Publish a draft", perm: console.PermPublish, errors: []int{404, 409, 412, 428}}, a.publishDraft)
}

func (a *API) listDrafts(ctx context.Context, _ *struct{}) (*Body[List[Draft]], error) {
	items, err := a.Policies.ListDrafts(ctx)
	if err != nil {
		return nil, err
	}
	return &Body[List[Draft]]{listOf(items, "", draftInList)}, nil
}

func (a *API) createDraft(ctx context.Context, in *draftCreateIn) (*draftOut, error) {
	var src []byte
	if in.Body.Document != nil {
		src = in.Body.Document.source
	}
	request := struct{ Name, Document string }{in.Body.Name, string(src)}
	return once(ctx, a, "drafts.create", in.Repeatable, request, false, func(d *draftOut) any { return d }, func() (*draftOut, error) {
		d, err := a.Policies.CreateDraft(ctx, actorOf(ctx), in.Body.Name, src)
		if err != nil {
			return nil, err
		}
		return shown(d), nil
	})
}

func (a *API) getDraft(ctx context.Context, in *DraftPath) (*draftOut, error) {
	d, err := a.Policies.GetDraft(ctx, in.Draft)
	if console.IsNotFound(err) {
		if n, verr := a.Policies.VersionOfDraft(ctx, in.Draft); verr == nil {
			return nil, newProblem(http.StatusGone, fmt.Sprintf("This draft was published as v%d: /api/v1/policy/versions/%d.", n, n))
		}
	}
	return shownUnless(d, err)
}

func (a *API) saveDraft(ctx context.Context, in *draftSaveIn) (*draftOut, error) {
	etag, err := a.etagOf(ctx, in.Draft, in.Matching)
	if err != nil {
		return nil, err
	}
	d, err := a.Policies.SaveDraft(ctx, actorOf(ctx), in.Draft, etag, in.Body.Document.source)
	if err != nil {
		return nil, err
	}
	return shown(d), nil
}

func (a *API) deleteDraft(ctx context.Context, in *draftDeleteIn) (*struct{}, error) {
	etag, err := a.etagOf(ctx, in.Draft, in.Matching)
	if err != nil {
		return nil, err
	}
	if err := a.Policies.DeleteDraft(ctx, actorOf(ctx), in.Draft, etag); err != nil {
		return nil, err
	}
	return nil, nil //nolint:nilnil // the framework's way to say 204
}

func (a *API) rebaseDraft(ctx context.Context, in *draftDeleteIn) (*draftOut, error) {
	etag, err := a.etagOf(ctx, in.Draft, in.Matching)
	if err != nil {
		return nil, err
	}
	d, err := a.Policies.RebaseDraft(ctx, actorOf(ctx), in.Draft, etag)
	if err != nil {
		return nil, err
	}
	return shown(d), nil
}

// getDraftTests: tests are a resource of their own, so that they can be saved without the document.
func (a *API) getDraftTests(ctx context.Context, in *DraftPath) (*draftTestsOut, error) {
	d, err := a.Policies.GetDraft(ctx, in.Draft)
	if err != nil {
		return nil, err
	}
	return &draftTestsOut{ETag: quoted(d.ETag), Body: draftTests{d.Tests}}, nil
}

func (a *API) saveDraftTests(ctx context.Context, in *draftTestsIn) (*draftOut, error) {
	etag, err := a.etagOf(ctx, in.Draft, in.Matching)
	if err != nil {
		return nil, err
	}
	return shownUnless(a.Policies.SaveTests(ctx, actorOf(ctx), in.Draft, etag, in.Body.Tests.source))
}

func (a *API) renameDraft(ctx context.Context, in *draftRenameIn) (*draftOut, error) {
	etag, err := a.etagOf(ctx, in.Draft, in.Matching)
	if err != nil {
		return nil, err
	}
	return shownUnless(a.Policies.RenameDraft(ctx, actorOf(ctx), in.Draft, etag, in.Body.Name))
}

func (a *API) mergeDraft(ctx context.Context, in *draftDeleteIn) (*mergedOut, error) {
	etag, err := a.etagOf(ctx, in.Draft, in.Matching)
	if err != nil {
		return nil, err
	}
	d, clashes, err := a.Policies.MergeDraft(ctx, actorOf(ctx), in.Draft, etag)
	if err != nil {
		return nil, err
	}
	return &mergedOut{ETag: quoted(d.ETag), Body: mergedDraft{Draft: draftOf(d), Clashes: append([]string{}, clashes...)}}, nil
}

func (a *API) publishDraft(ctx context.Context, in *draftPublishIn) (*publishedOut, error) {
	etag, err := a.etagOf(ctx, in.Draft, in.Matching)
	if err != nil {
		return nil, err
	}
	o, err := in.Body.options()
	if err != nil {
		return nil, err
	}
	// The draft is gone afterwards, so a repeat has no second effect either way.
	return a.publishing(ctx, "drafts.publish", Repeatable{}, in.Waiting, nil, o, func() (console.Version, error) {
		return a.Policies.PublishDraft(ctx, actorOf(ctx), in.Draft, etag, o)
	})
}
