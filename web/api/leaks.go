package api

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
)

// permIntake marks the operation that takes what a scanner found: with the
// intake's own token, or with that of an operator who may manage keys.
const permIntake console.Permission = "leak-intake"

// LeakCase is one key that was found where it should not be.
type LeakCase struct {
	ID       string     `json:"id" example:"lek_abcdefghij234567"`
	KID      string     `json:"kid"`
	TenantID string     `json:"tenant_id"`
	Tenant   string     `json:"tenant"`
	State    string     `json:"state" enum:"open,contained,dismissed"`
	Source   string     `json:"source" doc:"Who found it"`
	Type     string     `json:"type,omitempty" doc:"What the finder calls it"`
	URL      string     `json:"url,omitempty" doc:"Where it was"`
	Note     string     `json:"note,omitempty"`
	Done     string     `json:"done,omitempty" doc:"What was done about it"`
	FoundAt  time.Time  `json:"found_at"`
	ClosedAt *time.Time `json:"closed_at,omitempty"`
	ClosedBy string     `json:"closed_by,omitempty"`
	Reports  int64      `json:"reports" doc:"How often it was reported"`
}

func leakOf(c console.LeakCase) LeakCase {
	return LeakCase{ID: c.ID, KID: c.KID, TenantID: c.TenantID, Tenant: c.TenantName, State: string(c.State), Source: c.Source, Type: c.Kind,
		URL: c.URL, Note: c.Note, Done: c.Done, FoundAt: c.FoundAt, ClosedAt: c.ClosedAt, ClosedBy: c.ClosedBy, Reports: c.Reports}
}

// LeakFind is one key that was found in a text.
type LeakFind struct {
	Masked     string      `json:"masked" example:"hg_live_0123456789AB_…"`
	KID        string      `json:"kid"`
	Ours       bool        `json:"ours" doc:"It is a key of this installation, secret and all"`
	KeyVersion *KeyVersion `json:"key_version,omitempty"`
	Tenant     string      `json:"tenant,omitempty" doc:"Name of the tenant"`
	Operator   string      `json:"operator,omitempty" doc:"Whose API token it is"`
	Cases      []LeakCase  `json:"cases" nullable:"false"`
}

func leakFindOf(f console.LeakFind) LeakFind {
	out := LeakFind{Masked: f.Masked, KID: f.KID, Ours: f.Ours, Operator: f.Operator, Cases: []LeakCase{}}
	if f.Ours && f.Operator == "" {
		v := keyVersionOf(f.Version)
		out.KeyVersion, out.Tenant = &v, f.Tenant.Name
	}
	for _, c := range f.Cases {
		out.Cases = append(out.Cases, leakOf(c))
	}
	return out
}

type (
	leakReport struct {
		Token string `json:"token" maxLength:"4096" doc:"The key as it was found. It is looked up in memory, and neither stored nor logged"`
		Type  string `json:"type,omitempty" maxLength:"120" doc:"What the finder calls it"`
		URL   string `json:"url,omitempty" maxLength:"2000" doc:"Where it was"`
	}
	leakReportIn struct {
		Body struct {
			Source  string       `json:"source,omitempty" maxLength:"60" pattern:"^[a-z0-9][a-z0-9-]*$" doc:"Name of the scanner; api when left out"`
			Reports []leakReport `json:"reports" nullable:"false" minItems:"1" maxItems:"1000"`
		}
	}
	leakVerdict struct {
		Ours bool   `json:"ours"`
		Done string `json:"done" doc:"What became of it" enum:"nothing,opened,open already,dismissed,revoked,had ended before"`
		Case string `json:"case,omitempty"`
	}
	leakVerdicts struct {
		Items []leakVerdict `json:"items" nullable:"false" doc:"In the order of the reports"`
	}
	leakListIn struct {
		Paging
		State string `query:"state" enum:"open,contained,dismissed"`
		KID   string `query:"kid" maxLength:"12"`
	}
	leakFindIn struct {
		Body struct {
			Text string `json:"text" maxLength:"65536" doc:"Any text that may hold keys. It is read in memory, and neither stored nor logged"`
		}
	}
	// LeakPath names a leak case. Exported, as the framework reads only exported parts.
	LeakPath struct {
		Case string `path:"case" maxLength:"64"`
	}
	leakDismissIn struct {
		LeakPath
		Body struct {
			Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"Why it is none; kept in the audit trail"`
		}
	}
	newContainment struct {
		Replace bool   `json:"replace,omitempty" doc:"Issue a new key of the credential at once, unless another one of it works"`
		URL     string `json:"url,omitempty" maxLength:"2000" doc:"Where it was found"`
		Note    string `json:"note" minLength:"1" maxLength:"500" doc:"What happened; kept in the audit trail"`
	}
	containIn struct {
		KeyPath
		Repeatable
		Body newContainment
	}
	contained struct {
		Case       LeakCase    `json:"case"`
		KeyVersion *KeyVersion `json:"key_version,omitempty" doc:"The new one, when one was issued"`
		Key        string      `json:"key,omitempty" doc:"Its secret. It is in this answer and nowhere else"`
		Working    string      `json:"working,omitempty" doc:"kid of the version of the credential that works on"`
		Converged
	}
)

func (a *API) registerLeaks() {
	register(a, op{id: "report-leaks", method: "POST", path: "/leaks", summary: "Report keys that were found where they should not be", perm: permIntake, body: 1 << 20}, a.reportLeaks)
	register(a, op{id: "list-leaks", method: "GET", path: "/leaks", summary: "List leak cases", perm: console.PermView}, a.listLeaks)
	register(a, op{id: "find-leaks", method: "POST", path: "/leaks/find", summary: "Find keys in a text and say whose they are", perm: console.PermView, body: 128 << 10}, a.findLeaks)
	register(a, op{id: "dismiss-leak", method: "POST", path: "/leaks/{case}/dismiss", summary: "Close a leak case without revoking the key", perm: console.PermManageKeys, status: 204, errors: []int{404, 409}}, a.dismissLeak)
	register(a, op{id: "contain-key-version", method: "POST", path: "/key-versions/{kid}/contain", summary: "Revoke a key that got out, and replace it when asked to", perm: console.PermManageKeys, errors: []int{404, 409}}, a.containKey)
}

func (a *API) reportLeaks(ctx context.Context, in *leakReportIn) (*Body[leakVerdicts], error) {
	source := in.Body.Source
	if source == "" {
		source = "api"
	}
	reports := make([]console.LeakReport, len(in.Body.Reports))
	for i, r := range in.Body.Reports {
		reports[i] = console.LeakReport{Token: console.NewLeakToken(r.Token), Kind: r.Type, URL: r.URL}
	}
	verdicts, err := a.Leaks.Take(ctx, source, reports)
	if err != nil {
		return nil, err
	}
	out := &Body[leakVerdicts]{leakVerdicts{Items: []leakVerdict{}}}
	for _, v := range verdicts {
		out.Body.Items = append(out.Body.Items, leakVerdict{Ours: v.Ours, Done: v.Done, Case: v.Case})
	}
	return out, nil
}

func (a *API) listLeaks(ctx context.Context, in *leakListIn) (*Body[List[LeakCase]], error) {
	items, next, err := a.Leaks.List(ctx, console.LeakQuery{State: console.LeakState(in.State), KID: in.KID, Page: in.page()})
	if err != nil {
		return nil, err
	}
	return &Body[List[LeakCase]]{listOf(items, next, leakOf)}, nil
}

func (a *API) findLeaks(ctx context.Context, in *leakFindIn) (*Body[List[LeakFind]], error) {
	finds, err := a.Leaks.Find(ctx, actorOf(ctx), in.Body.Text)
	if err != nil {
		return nil, err
	}
	return &Body[List[LeakFind]]{listOf(finds, "", leakFindOf)}, nil
}

func (a *API) dismissLeak(ctx context.Context, in *leakDismissIn) (*struct{}, error) {
	return nil, a.Leaks.Dismiss(ctx, actorOf(ctx), in.Case, in.Body.Reason)
}

func (a *API) containKey(ctx context.Context, in *containIn) (*Body[contained], error) {
	request := struct {
		KID  string
		Body newContainment
	}{in.KID, in.Body}
	public := func(b *Body[contained]) any {
		return map[string]string{"case": b.Body.Case.ID, "working": b.Body.Working}
	}
	return once(ctx, a, "keys.contain", in.Repeatable, request, true, public, func() (*Body[contained], error) {
		done, err := a.Leaks.Contain(ctx, actorOf(ctx), console.Containment{
			KID: in.KID, Replace: in.Body.Replace, Source: "api", URL: in.Body.URL, Note: in.Body.Note,
		})
		if err != nil {
			return nil, err
		}
		out := &Body[contained]{contained{Case: leakOf(done.Case), Working: done.Working,
			Converged: converged(a.Fleet.WaitChange(ctx, done.Change, issueWait), refused)}}
		if done.Replaced {
			v := keyVersionOf(done.KeyVersion)
			out.Body.KeyVersion, out.Body.Key = &v, done.Secret.Reveal()
		}
		return out, nil
	})
}
