package console

import (
	"context"
	"fmt"
	"sync"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

// noProver is the answer where tests and simulations cannot run.
func noProver() error {
	return &Error{Code: CodeUnavailable, Public: "This console cannot run tests and simulations."}
}

// RunTests runs a suite against a document, for 20 s at most. The report says
// what is wrong with the suite; then nothing runs. A suite that takes longer is
// CodeUnavailable.
func (s *Policies) RunTests(ctx context.Context, doc *policy.Document, tests []byte) ([]scenario.Result, policy.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, publishTests)
	defer cancel()
	results, report, err := s.runTests(ctx, s.proving, doc, tests)
	return results, report, tooSlow(ctx, err)
}

// tooSlow says of tests that ended with their time that they took too long.
func tooSlow(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return &Error{Code: CodeUnavailable, Public: "The tests took too long; please try again, or make them shorter.", Cause: err}
}

// runTests runs a suite while ctx lasts, one suite at a time of those that take
// the same turn. A nil document is only for what the suite itself says.
func (s *Policies) runTests(ctx context.Context, turn chan struct{}, doc *policy.Document, tests []byte) ([]scenario.Result, policy.Report, error) {
	suite, report := s.readSuite(doc, tests)
	if suite == nil || !report.OK() || doc == nil || len(suite.Tests) == 0 {
		return nil, report, nil
	}
	if s.d.Prover == nil {
		return nil, report, noProver()
	}
	leave, err := enter(ctx, turn)
	if err != nil {
		return nil, report, err
	}
	defer leave()
	results, err := s.d.Prover.Test(ctx, doc, suite, s.tenantsFor(ctx))
	if err != nil {
		return nil, report, fmt.Errorf("run tests: %w", err)
	}
	return results, report, ctx.Err()
}

// readSuite reads a suite and holds it against a document, unless that is nil.
func (s *Policies) readSuite(doc *policy.Document, tests []byte) (*scenario.Suite, policy.Report) {
	suite, report := scenario.Parse(tests)
	if suite == nil || doc == nil {
		return suite, report
	}
	more := suite.Check(doc)
	report.Problems = append(report.Problems, more.Problems...)
	report.Warnings = append(report.Warnings, more.Warnings...)
	return suite, report
}

// enter waits for the turn to compute: tests and mutants take a processor each.
// Publications have a turn of their own: whoever may only edit must not keep
// them waiting.
func enter(ctx context.Context, turn chan struct{}) (leave func(), err error) {
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Score tells which small changes of a draft its tests would not notice. It
// takes up to 20 s; the score is Partial when that was not enough.
func (s *Policies) Score(ctx context.Context, actor Actor, id string) (scenario.Score, error) {
	if err := firstAllowed(actor, PermEditDrafts, PermApprove); err != nil {
		return scenario.Score{}, err
	}
	if s.d.Prover == nil {
		return scenario.Score{}, noProver()
	}
	d, err := s.GetDraft(ctx, id)
	if err != nil {
		return scenario.Score{}, err
	}
	doc, report, err := s.parse(ctx, []byte(d.Source))
	if err != nil {
		return scenario.Score{}, err
	}
	if doc == nil || !report.OK() {
		return scenario.Score{}, invalidDocument(report)
	}
	suite, report := s.readSuite(doc, []byte(d.Tests))
	if suite == nil || !report.OK() {
		return scenario.Score{}, invalidTests(report)
	}
	ctx, cancel := context.WithTimeout(ctx, publishTests)
	defer cancel()
	leave, err := enter(ctx, s.proving)
	if err != nil {
		return scenario.Score{}, tooSlow(ctx, err)
	}
	defer leave()
	score, err := s.d.Prover.Score(ctx, doc, suite, s.tenantsFor(ctx))
	if err != nil {
		return scenario.Score{}, tooSlow(ctx, fmt.Errorf("score tests: %w", err))
	}
	return score, nil
}

func invalidTests(r policy.Report) error {
	fields := make([]FieldError, len(r.Problems))
	for i, p := range r.Problems {
		fields[i] = FieldError{Field: "tests", Message: p.String()}
	}
	return &Error{Code: CodeInvalid, Public: "The tests cannot be read.", Fields: fields, Detail: r}
}

// testsOf runs the tests of a publication. Those of a rollback are told, and
// hold nothing up: the version was in force before.
func (s *Policies) testsOf(ctx context.Context, p publication, pre prepared) ([]scenario.Result, error) {
	if pre.tests == "" {
		return nil, nil
	}
	wait := publishTests
	if p.rollbackOf > 0 {
		wait = rollbackTests
	}
	within, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	results, report, err := s.runTests(within, s.deciding, pre.doc, []byte(pre.tests))
	switch {
	case p.rollbackOf > 0 && ctx.Err() == nil:
		return results, nil
	case err != nil:
		return nil, tooSlow(within, err)
	case !report.OK():
		return nil, invalidTests(report)
	}
	return results, nil
}

// tenantsFor looks tenants up by id or external id, each once. It may be used
// by several goroutines.
func (s *Policies) tenantsFor(ctx context.Context) func(string) (policy.TenantRecord, bool) {
	var mu sync.Mutex
	known := map[string]*policy.TenantRecord{}
	return func(ref string) (policy.TenantRecord, bool) {
		mu.Lock()
		defer mu.Unlock()
		if r, asked := known[ref]; asked {
			return orNone(r)
		}
		var t Tenant
		err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
			t, err = tx.FindTenant(ctx, ref)
			return err
		})
		if err != nil && !IsNotFound(err) {
			return policy.TenantRecord{}, false // not remembered: the database may be back for the next
		}
		known[ref] = nil
		if err == nil {
			r := t.record()
			known[ref] = &r
		}
		return orNone(known[ref])
	}
}

func orNone(r *policy.TenantRecord) (policy.TenantRecord, bool) {
	if r == nil {
		return policy.TenantRecord{}, false
	}
	return *r, true
}

// record is what gateways are told of a tenant.
func (t Tenant) record() policy.TenantRecord {
	r := policy.TenantRecord{ID: t.ID, Plan: t.Plan, State: t.State, TimeZone: t.TimeZone}
	if r.TimeZone == "UTC" {
		r.TimeZone = "" // the default of a tenant, which says nothing against the plan's
	}
	return r
}
