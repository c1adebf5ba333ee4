package api

import (
	"context"
	"net/http"
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
	Author      string    `json:"author"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
}

func draftOf(d console.Draft) Draft {
	return Draft{ID: d.ID, Name: d.Name, BaseVersion: d.Base, Document: d.Source, Author: d.Author, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt}
}

func draftInList(d console.Draft) Draft {
	out := draftOf(d)
	out.Document = ""
	return out
}

type (
	// DraftPath names a draft. Exported, as the framework reads only exported parts.
	DraftPath struct {
		Draft string `path:"draft" maxLength:"64"`
	}
	// Matching says which state of a draft the request was made from. Exported, as the framework reads only exported parts.
	Matching struct {
		IfMatch string `header:"If-Match" maxLength:"128" doc:"The ETag of the draft as it was read; compulsory"`
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
		Body struct {
			Note string `json:"note,omitempty" maxLength:"2000"`
		}
	}
	draftOut struct {
		ETag string `header:"ETag"`
		Body Draft
	}
)

func (m Matching) etag() (string, error) {
	if m.IfMatch == "" {
		return "", newProblem(http.StatusPreconditionRequired, "Send the draft's ETag as If-Match.")
	}
	return strings.Trim(strings.TrimPrefix(m.IfMatch, "W/"), `"`), nil
}

// stale gives a lost edit race its status: the draft is not what If-Match says.
// A stale base is something else and stays a conflict.
func stale(err error) error {
	p := fromConsole(err)
	if console.CodeOf(err) == console.CodeConflict && p.HeadVersion == nil {
		return newProblem(http.StatusPreconditionFailed, p.Detail).as("stale-draft")
	}
	return err
}

func shown(d console.Draft) *draftOut { return &draftOut{ETag: `"` + d.ETag + `"`, Body: draftOf(d)} }

func (a *API) registerDrafts() {
	register(a, op{id: "list-drafts", method: "GET", path: "/policy/drafts", summary: "List drafts", perm: console.PermView}, a.listDrafts)
	register(a, op{id: "create-draft", method: "POST", path: "/policy/drafts", summary: "Start a draft", perm: console.PermEditDrafts, status: 201, body: documentBody, errors: []int{409, 413}}, a.createDraft)
	register(a, op{id: "get-draft", method: "GET", path: "/policy/drafts/{draft}", summary: "Get a draft", perm: console.PermView, errors: []int{404}}, a.getDraft)
	register(a, op{id: "save-draft", method: "PUT", path: "/policy/drafts/{draft}", summary: "Replace a draft's document", perm: console.PermEditDrafts, body: documentBody, errors: []int{404, 412, 413, 428}}, a.saveDraft)
	register(a, op{id: "delete-draft", method: "DELETE", path: "/policy/drafts/{draft}", summary: "Delete a draft", perm: console.PermEditDrafts, status: 204, errors: []int{404, 412, 428}}, a.deleteDraft)
	register(a, op{id: "rebase-draft", method: "POST", path: "/policy/drafts/{draft}/rebase", summary: "Base a draft on the policy in force, its document unchanged", perm: console.PermEditDrafts, errors: []int{404, 412, 428}}, a.rebaseDraft)
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
	if err != nil {
		return nil, err
	}
	return shown(d), nil
}

func (a *API) saveDraft(ctx context.Context, in *draftSaveIn) (*draftOut, error) {
	etag, err := in.etag()
	if err != nil {
		return nil, err
	}
	d, err := a.Policies.SaveDraft(ctx, actorOf(ctx), in.Draft, etag, in.Body.Document.source)
	if err != nil {
		return nil, stale(err)
	}
	return shown(d), nil
}

func (a *API) deleteDraft(ctx context.Context, in *draftDeleteIn) (*struct{}, error) {
	etag, err := in.etag()
	if err != nil {
		return nil, err
	}
	if err := a.Policies.DeleteDraft(ctx, actorOf(ctx), in.Draft, etag); err != nil {
		return nil, stale(err)
	}
	return nil, nil //nolint:nilnil // the framework's way to say 204
}

func (a *API) rebaseDraft(ctx context.Context, in *draftDeleteIn) (*draftOut, error) {
	etag, err := in.etag()
	if err != nil {
		return nil, err
	}
	d, err := a.Policies.RebaseDraft(ctx, actorOf(ctx), in.Draft, etag)
	if err != nil {
		return nil, stale(err)
	}
	return shown(d), nil
}

func (a *API) publishDraft(ctx context.Context, in *draftPublishIn) (*publishedOut, error) {
	etag, err := in.etag()
	if err != nil {
		return nil, err
	}
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	out, err := published(a.Policies.PublishDraft(ctx, actorOf(ctx), in.Draft, etag, console.PublishOptions{Note: in.Body.Note}))
	if err != nil {
		return nil, stale(err)
	}
	return a.followed(ctx, out, in.Waiting)
}
