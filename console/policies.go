package console

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/headgate/headgate/policy"
)

// largeSource is the size, in bytes, above which documents are read one at a
// time: one of 8 MiB takes tens of megabytes and up to a second.
const largeSource = 256 << 10

// Policies manages drafts and published versions.
type Policies struct {
	d     Deps
	large chan struct{} // held while a large document is read

	proving   chan struct{} // held while tests run
	deciding  chan struct{} // held while tests run that a publication waits for
	cores     coreCache
	documents docCache
	demand    demandCache
	trials    *trialQueue
	refused   refusals
}

// NewPolicies returns the policies service. Its RunTrials must run for
// simulations to begin.
func NewPolicies(d Deps) *Policies {
	d = d.withDefaults()
	if d.Passwords == nil {
		d.Passwords = NewOperators(d)
	}
	return &Policies{d: d, large: make(chan struct{}, 1), proving: make(chan struct{}, 1), deciding: make(chan struct{}, 1), trials: newTrialQueue()}
}

// parse reads a document, a large one only when no other large one is being read.
func (s *Policies) parse(ctx context.Context, src []byte) (*policy.Document, policy.Report, error) {
	if len(src) > largeSource {
		select {
		case s.large <- struct{}{}:
			defer func() { <-s.large }()
		case <-ctx.Done():
			return nil, policy.Report{}, &Error{Code: CodeUnavailable, Public: "Another large policy is being read; please try again.", Cause: ctx.Err()}
		}
	}
	doc, report := policy.ParseLoose(src)
	return doc, report, nil
}

// Head returns the version in force; false when nothing was published yet.
func (s *Policies) Head(ctx context.Context) (v Version, ok bool, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		v, err = tx.Head(ctx)
		return err
	})
	if IsNotFound(err) {
		return Version{}, false, nil
	}
	return v, err == nil, err
}

// Version returns one published version.
func (s *Policies) Version(ctx context.Context, n int64) (v Version, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		v, err = tx.Version(ctx, n)
		return err
	})
	return v, err
}

// Versions returns published versions without their bodies, the newest first,
// and the cursor to the next page.
func (s *Policies) Versions(ctx context.Context, p Page) (items []Version, next string, err error) {
	after, err := decodeCursor(p.After)
	if err != nil {
		return nil, "", err
	}
	var before int64
	if after.ID != "" {
		if before, err = strconv.ParseInt(after.ID, 10, 64); err != nil || before < 1 {
			return nil, "", invalid(FieldError{Field: "cursor", Message: "This is not a cursor of this list."})
		}
	}
	limit := p.limit()
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		items, err = tx.Versions(ctx, before, limit+1)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	items, next = cut(items, limit, func(v Version) Cursor {
		return Cursor{At: v.CreatedAt, ID: strconv.FormatInt(v.Number, 10)}
	})
	return items, next, nil
}

// Validate reports everything that would keep src from being published now:
// what the document itself says, and plans that tenants are on and it lacks.
// The document is nil when src has not the shape of one.
func (s *Policies) Validate(ctx context.Context, src []byte) (*policy.Document, policy.Report) {
	doc, report, err := s.parse(ctx, src)
	if err != nil {
		return nil, policy.Report{Problems: []policy.Problem{{Message: "another large policy is being read; please try again"}}}
	}
	if doc == nil {
		return nil, report
	}
	s.checkPlans(ctx, doc, &report)
	return doc, report
}

// checkPlans adds plans that tenants are on and limits that they have values of
// their own for, where the document lacks them, or says that this could not be
// checked.
func (s *Policies) checkPlans(ctx context.Context, doc *policy.Document, report *policy.Report) {
	err := s.d.Store.Read(ctx, func(tx Tx) error {
		if err := addMissingPlans(ctx, tx, doc, report); err != nil {
			return err
		}
		return addIdleOverrides(ctx, tx, doc, s.d.now(), report)
	})
	if err != nil {
		s.d.Log.WarnContext(ctx, "plans in use are unknown", "error", err)
		report.Warnings = append(report.Warnings, policy.Problem{
			Path: "plans", Message: "it could not be checked whether tenants are on plans, or have values of their own for limits, that are missing here",
		})
	}
}

// Check is Validate for a document that is read already, and without problems
// of its source.
func (s *Policies) Check(ctx context.Context, doc *policy.Document) policy.Report {
	report := policy.Validate(doc)
	s.checkPlans(ctx, doc, &report)
	return report
}

// maxNamedTenants bounds how many tenants a missing plan names.
const maxNamedTenants = 3

// addMissingPlans adds a problem for each plan that tenants are on and the
// document lacks, with how many they are and who.
func addMissingPlans(ctx context.Context, tx Tx, doc *policy.Document, report *policy.Report) error {
	inUse, err := tx.PlansInUse(ctx)
	if err != nil {
		return err
	}
	missing := doc.MissingPlans(inUse)
	if len(missing) == 0 {
		return nil
	}
	counts, err := tx.CountByPlan(ctx)
	if err != nil {
		return err
	}
	for _, name := range missing {
		some, err := tx.Tenants(ctx, TenantQuery{Plan: name}, Cursor{}, maxNamedTenants)
		if err != nil {
			return err
		}
		report.Problems = append(report.Problems, policy.Problem{Path: "plans", Message: droppedPlan(name, counts[name], some)})
	}
	return nil
}

// droppedPlan says who is on a plan: some of n tenants by name.
func droppedPlan(plan string, n int64, some []Tenant) string {
	verb := "are"
	if n == 1 {
		verb = "is"
	}
	who := make([]string, len(some))
	for i, t := range some {
		who[i] = fmt.Sprintf("%s (%s)", excerptOf(t.Name), t.ID)
	}
	text := fmt.Sprintf("plan %q is dropped, but %s %s on it: %s", plan, tenantCount(n), verb, strings.Join(who, ", "))
	if more := n - int64(len(some)); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// documentOf reads a version's document; version 0 is the empty one, nil.
func documentOf(ctx context.Context, tx Tx, n int64) (*policy.Document, error) {
	if n == 0 {
		return nil, nil
	}
	v, err := tx.Version(ctx, n)
	if err != nil {
		return nil, err
	}
	return v.Document()
}

// Diff tells what changes from version a to version b; 0 stands for no policy
// at all.
func (s *Policies) Diff(ctx context.Context, a, b int64) (out []policy.Change, err error) {
	if b < 1 {
		return nil, notFound("version")
	}
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		before, err := documentOf(ctx, tx, a)
		if err != nil {
			return err
		}
		after, err := documentOf(ctx, tx, b)
		if err != nil {
			return err
		}
		out = policy.Diff(before, after)
		return nil
	})
	return out, err
}
