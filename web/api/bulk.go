package api

import (
	"context"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// BulkJob is one bulk job and how far it is.
type BulkJob struct {
	ID        string         `json:"id" example:"blk_abcdefghij234567"`
	Kind      string         `json:"kind" enum:"import-tenants,import-keys,revoke-unused,set-expiry,change-plan,suspend-tenants,resume-tenants"`
	State     string         `json:"state" enum:"checking,ready,running,done,cancelled,failed"`
	Name      string         `json:"name" doc:"The file, or what the selection says"`
	Reason    string         `json:"reason"`
	Selection *BulkSelection `json:"selection,omitempty"`
	Author    string         `json:"author"`
	Loaded    bool           `json:"loaded" doc:"All rows are known; total grows until then"`
	Total     int64          `json:"total"`
	Checked   int64          `json:"checked"`
	WouldDo   int64          `json:"would_do" doc:"Rows that change something"`
	WouldSkip int64          `json:"would_skip" doc:"Rows that are so already"`
	Bad       int64          `json:"bad" doc:"Rows with a problem; they are left out"`
	Done      int64          `json:"done"`
	Failed    int64          `json:"failed" doc:"Rows that could not be done although they were good when checked"`
	Problem   string         `json:"problem,omitempty" doc:"Why it failed, or what it waits for"`
	RowsKept  bool           `json:"rows_kept" doc:"Its rows can be listed: for 30 days after its end"`
	CreatedAt time.Time      `json:"created_at"`
	CheckedAt *time.Time     `json:"checked_at,omitempty"`
	StartedAt *time.Time     `json:"started_at,omitempty"`
	StartedBy string         `json:"started_by,omitempty"`
	EndedAt   *time.Time     `json:"ended_at,omitempty"`
	EndedBy   string         `json:"ended_by,omitempty" doc:"Who cancelled it"`
}

// BulkSelection says what a job is about that reads no file.
type BulkSelection struct {
	Tenants     []string   `json:"tenants,omitempty" maxItems:"1000" doc:"Ids; all when left out"`
	KIDs        []string   `json:"kids,omitempty" maxItems:"1000" doc:"Keys; all when left out"`
	Plan        string     `json:"plan,omitempty" doc:"Tenants' plan now; any when left out"`
	Environment string     `json:"environment,omitempty" enum:"live,test" doc:"Of keys; both when left out"`
	UnusedDays  int        `json:"unused_days,omitempty" minimum:"1" maximum:"3650" doc:"revoke-unused"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty" doc:"set-expiry"`
	Extend      bool       `json:"extend,omitempty" doc:"set-expiry: also for keys that expire earlier now"`
	ToPlan      string     `json:"to_plan,omitempty" doc:"change-plan"`
}

func bulkOf(j console.BulkJob) BulkJob {
	out := BulkJob{ID: j.ID, Kind: string(j.Kind), State: string(j.State), Name: j.Name, Reason: j.Reason, Author: j.Author, Loaded: j.Loaded, Total: j.Total,
		Checked: j.Checked, WouldDo: j.WouldDo, WouldSkip: j.WouldSkip, Bad: j.Bad, Done: j.Done, Failed: j.Failed, Problem: j.Problem, RowsKept: j.RowsKept,
		CreatedAt: j.CreatedAt, CheckedAt: j.CheckedAt, StartedAt: j.StartedAt, StartedBy: j.StartedBy, EndedAt: j.EndedAt, EndedBy: j.EndedBy}
	if !j.Kind.Imports() {
		out.Selection = new(BulkSelection(j.Selection))
	}
	return out
}

// BulkRow is one row of a job with what became of it.
type BulkRow struct {
	Line    int64  `json:"line" doc:"Of the input, from 1; of a selection its place"`
	Subject string `json:"subject" doc:"Tenant, kid or external id"`
	Outcome string `json:"outcome" doc:"would-do, would-skip, bad, done or failed; empty while it is not checked"`
	Message string `json:"message" doc:"What is wrong, or what changes"`
}

// PlanMove is what a change of plan does to those who are on one plan now.
type PlanMove struct {
	From    string          `json:"from"`
	To      string          `json:"to"`
	Tenants int64           `json:"tenants"`
	Changes []policy.Change `json:"changes" doc:"What differs between the plans of the policy in force"`
}

type (
	// BulkPath names a job. Exported, as the framework reads only exported parts.
	BulkPath struct {
		Job string `path:"job" maxLength:"64"`
	}
	bulkListIn struct {
		Paging
		State string `query:"state" enum:"checking,ready,running,done,cancelled,failed"`
		Kind  string `query:"kind" enum:"import-tenants,import-keys,revoke-unused,set-expiry,change-plan,suspend-tenants,resume-tenants"`
	}
	bulkRowsIn struct {
		BulkPath
		Paging
		Outcome string `query:"outcome" enum:"would-do,would-skip,bad,done,failed"`
	}
	bulkCreateIn struct {
		Repeatable
		ContentType string `header:"Content-Type" doc:"text/csv, application/x-ndjson, multipart/form-data with the fields of the query before the file, or application/json for a selection"`
		Kind        string `query:"kind" enum:"import-tenants,import-keys,revoke-unused,set-expiry,change-plan,suspend-tenants,resume-tenants" doc:"Unless the body says it"`
		Name        string `query:"name" maxLength:"200" doc:"The file's, to find the job again"`
		Reason      string `query:"reason" maxLength:"500" doc:"Why; kept in the audit trail. Unless the body says it"`
		request     huma.Context
	}
	bulkRequest struct {
		Kind      string        `json:"kind"`
		Name      string        `json:"name"`
		Reason    string        `json:"reason"`
		Selection BulkSelection `json:"selection"`
	}
)

// Resolve keeps the request, whose body is read as a stream.
func (in *bulkCreateIn) Resolve(c huma.Context) []error {
	in.request = c
	return nil
}

func (a *API) registerBulk() {
	register(a, op{id: "list-bulk-jobs", method: "GET", path: "/bulk", summary: "List bulk jobs", perm: console.PermView}, a.listBulk)
	register(a, op{id: "create-bulk-job", method: "POST", path: "/bulk", summary: "Check a bulk job: a file to import, or a selection. Needs manage-tenants for tenants and plans, manage-keys for keys",
		perm: console.PermView, status: 201, body: console.MaxBulkInput + 1<<20, errors: []int{409, 413, 415}}, a.createBulk)
	register(a, op{id: "get-bulk-job", method: "GET", path: "/bulk/{job}", summary: "Get a bulk job and how far it is", perm: console.PermView, errors: []int{404}}, a.getBulk)
	register(a, op{id: "list-bulk-rows", method: "GET", path: "/bulk/{job}/rows", summary: "List rows of a bulk job with what became of each", perm: console.PermView, errors: []int{404}}, a.listBulkRows)
	register(a, op{id: "get-bulk-plans", method: "GET", path: "/bulk/{job}/plans", summary: "What a change of plan does to limits", perm: console.PermView, errors: []int{404}}, a.getBulkPlans)
	for _, act := range []struct {
		name, summary string
		do            func(context.Context, console.Actor, string) (console.BulkJob, error)
	}{
		{"check", "Check a bulk job anew that waits for its start", a.Bulk.Check},
		{"start", "Start a bulk job that was checked", a.Bulk.Start},
		{"cancel", "Cancel a bulk job; what was done stays done", a.Bulk.Cancel},
	} {
		register(a, op{id: act.name + "-bulk-job", method: "POST", path: "/bulk/{job}/" + act.name, perm: console.PermView, errors: []int{404, 409},
			summary: act.summary + ". Needs what its creation needs"}, func(ctx context.Context, in *BulkPath) (*Body[BulkJob], error) {
			j, err := act.do(ctx, actorOf(ctx), in.Job)
			if err != nil {
				return nil, err
			}
			return &Body[BulkJob]{bulkOf(j)}, nil
		})
	}
	a.describeBulk()
}

// describeBulk says what the body of a creation may be: the framework does not read it.
func (a *API) describeBulk() {
	file := &huma.Schema{Type: huma.TypeString, Format: "binary"}
	selection := a.huma.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[BulkSelection](), true, "BulkSelection")
	text := &huma.Schema{Type: huma.TypeString}
	a.huma.OpenAPI().Paths[Prefix+"/bulk"].Post.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"text/csv":             {Schema: file},
		"application/x-ndjson": {Schema: file},
		"multipart/form-data": {Schema: &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{
			"kind": text, "name": text, "reason": text, "file": file}, Required: []string{"file"}}},
		"application/json": {Schema: &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{
			"kind": text, "name": text, "reason": text, "selection": selection}, Required: []string{"kind", "reason", "selection"}}},
	}}
}

func (a *API) listBulk(ctx context.Context, in *bulkListIn) (*Body[List[BulkJob]], error) {
	items, next, err := a.Bulk.List(ctx, console.BulkQuery{State: console.BulkState(in.State), Kind: console.BulkKind(in.Kind), Page: in.page()})
	if err != nil {
		return nil, err
	}
	return &Body[List[BulkJob]]{listOf(items, next, bulkOf)}, nil
}

func (a *API) getBulk(ctx context.Context, in *BulkPath) (*Body[BulkJob], error) {
	j, err := a.Bulk.Get(ctx, in.Job)
	if err != nil {
		return nil, err
	}
	return &Body[BulkJob]{bulkOf(j)}, nil
}

func (a *API) listBulkRows(ctx context.Context, in *bulkRowsIn) (*Body[List[BulkRow]], error) {
	items, next, err := a.Bulk.Rows(ctx, in.Job, in.Outcome, in.page())
	if err != nil {
		return nil, err
	}
	return &Body[List[BulkRow]]{listOf(items, next, func(r console.BulkRow) BulkRow { return BulkRow(r) })}, nil
}

func (a *API) getBulkPlans(ctx context.Context, in *BulkPath) (*Body[List[PlanMove]], error) {
	moves, err := a.Bulk.Moves(ctx, in.Job)
	if err != nil {
		return nil, err
	}
	return &Body[List[PlanMove]]{listOf(moves, "", func(m console.PlanMove) PlanMove {
		out := PlanMove(m)
		if out.Changes == nil {
			out.Changes = []policy.Change{}
		}
		return out
	})}, nil
}
