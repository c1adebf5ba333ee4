package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// testsWait is how long a page waits for a suite.
const testsWait = 3 * time.Second

func (s *Server) draftTests(w http.ResponseWriter, r *http.Request) error {
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	p := views.DraftTestsProps{Source: e.draft.Tests}
	if r.URL.Query().Get("score") == "1" {
		p.Score = s.scoreOf(r, e.draft.ID)
	}
	return s.renderTests(w, r, http.StatusOK, e, p)
}

// renderTests shows a suite and, when it is the stored one, how it goes.
func (s *Server) renderTests(w http.ResponseWriter, r *http.Request, status int, e *editor, p views.DraftTestsProps) error {
	p.Head = s.draftHead(r, e, "tests")
	p.Head.Frame.Title = "Tests · " + e.draft.Name
	suite, report := scenario.Parse([]byte(p.Source))
	if suite != nil && e.doc != nil {
		more := suite.Check(e.doc)
		report.Problems, report.Warnings = append(report.Problems, more.Problems...), append(report.Warnings, more.Warnings...)
	}
	p.Problems, p.Warnings = suiteProblems(report.Problems), suiteProblems(report.Warnings)
	switch {
	case e.doc == nil:
		p.Why = "No test runs: the draft cannot be read as a policy" + firstProblem(e.report) + ". Mend it, and they run again."
	case suite == nil || len(suite.Tests) == 0 || len(report.Problems) > 0:
	case !e.report.OK():
		p.Why = "The tests did not run: the draft has problems, so there is nothing to run them on."
	case p.Source == e.draft.Tests:
		s.runTests(r.Context(), e, suite, &p)
	}
	p.Examples = exampleTitles(e.doc)
	return s.render(w, r, status, views.DraftTests(p))
}

// firstProblem says why a document cannot be read.
func firstProblem(r policy.Report) string {
	if len(r.Problems) == 0 {
		return ""
	}
	p := r.Problems[0]
	text := " (" + strings.TrimSpace(p.Path+" "+p.Message)
	if p.Line > 0 {
		text += fmt.Sprintf(", line %d", p.Line)
	}
	return text + ")"
}

func suiteProblems(problems []policy.Problem) []views.ProblemRow {
	var rows []views.ProblemRow
	for _, p := range problems[:min(len(problems), shownProblems)] {
		rows = append(rows, views.ProblemRow{Path: cmp.Or(p.Path, "tests"), Line: p.Line, Message: p.Message, URL: "#f-source"})
	}
	return rows
}

func (s *Server) runTests(ctx context.Context, e *editor, suite *scenario.Suite, p *views.DraftTestsProps) {
	ctx, cancel := context.WithTimeout(ctx, testsWait)
	defer cancel()
	results, _, err := s.Policies.RunTests(ctx, e.doc, []byte(e.draft.Tests))
	if err != nil {
		p.Why = "The tests did not run: " + publicText(err)
		return
	}
	p.Results = testRows(suite, results)
	for _, t := range p.Results {
		if t.Passed {
			p.Passed++
		} else {
			p.Failed++
		}
	}
}

// publicText is what an error says to people.
func publicText(err error) string {
	if ce, ok := errors.AsType[*console.Error](err); ok && ce.Code != console.CodeInternal {
		return ce.Public
	}
	return "Something went wrong on our side."
}

// testRows tell each test with what came of it, the failing ones first. Results
// without their suite, as a version keeps them, have no steps in words.
func testRows(suite *scenario.Suite, results []scenario.Result) []views.TestRow {
	rows := make([]views.TestRow, 0, len(results))
	for i, res := range results {
		row := views.TestRow{Name: res.Name, Passed: res.Passed, Detail: res.Detail}
		if suite != nil && i < len(suite.Tests) && suite.Tests[i].Name == res.Name {
			t := suite.Tests[i]
			row.Description, row.Given = t.Description, callerText(t.Given)
			for j, step := range res.Steps {
				if j < len(t.Steps) {
					row.Steps = append(row.Steps, views.TestStep{Asks: asksText(t.Steps[j]), Came: cameText(step)})
				}
			}
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b views.TestRow) int {
		switch {
		case a.Passed == b.Passed:
			return 0
		case b.Passed:
			return -1
		}
		return 1
	})
	return rows
}

func callerText(c scenario.Caller) string {
	text := "without a key"
	switch {
	case c.Tenant != "":
		text = "tenant " + c.Tenant
	case c.Plan != "":
		text = "a tenant on plan " + c.Plan
	}
	if c.User != "" {
		text += ", user " + c.User
	}
	if c.IP != "" {
		text += ", from " + c.IP
	}
	return text
}

func asksText(st scenario.Step) string {
	text := ui.Int(st.Send) + " × " + st.Request
	if st.In > 0 {
		text += " within " + ui.Span(st.In)
	}
	if st.After > 0 {
		text = "after " + ui.Span(st.After) + ", " + text
	}
	return text
}

func cameText(st scenario.StepResult) string {
	switch {
	case st.Refused == 0:
		return "all admitted"
	case st.RefusedBy == "":
		return fmt.Sprintf("%s refused from request %s on: %s", ui.Int(st.Refused), ui.Int(st.At), st.Reason)
	}
	text := fmt.Sprintf("request %s refused by %s", ui.Int(st.At), st.RefusedBy)
	if st.RetryMillis > 0 {
		text += ", retry in " + ui.Span(time.Duration(st.RetryMillis)*time.Millisecond)
	}
	return text + fmt.Sprintf(" (%s admitted, %s refused)", ui.Int(st.Admitted), ui.Int(st.Refused))
}

// shownMutants bounds the list of what no test would notice.
const shownMutants = 40

func (s *Server) scoreOf(r *http.Request, draft string) *views.ScoreProps {
	score, err := s.Policies.Score(r.Context(), actor(r), draft)
	if err != nil {
		return &views.ScoreProps{Problem: publicText(err)}
	}
	p := &views.ScoreProps{Killed: score.Killed, Total: score.Total, Partial: score.Partial}
	for _, m := range score.Mutants {
		switch {
		case m.Killed:
		case len(p.Missed) < shownMutants:
			p.Missed = append(p.Missed, strings.TrimPrefix(m.Text, "no test would notice "))
		default:
			p.More++
		}
	}
	return p
}

// draftSaveTests stores a suite, whatever is wrong with it: a draft may have
// problems. With insert it only puts a further test into the editor.
func (s *Server) draftSaveTests(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "etag", "source", "insert")
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	src := f.Raw("source")
	if which := f.Get("insert"); which != "" {
		p := views.DraftTestsProps{Source: s.withExample(r.Context(), e.doc, src, which)}
		return s.renderTests(w, r, http.StatusOK, e, p)
	}
	d, err := s.Policies.SaveTests(r.Context(), actor(r), e.draft.ID, f.Get("etag"), []byte(src))
	switch ce, _ := errors.AsType[*console.Error](err); {
	case err == nil:
		return s.redirect(w, r, ui.DraftURL(d.ID)+"/tests", "Saved.")
	case ce != nil && ce.Code == console.CodeConflict:
		return s.renderTests(w, r, http.StatusConflict, e, views.DraftTestsProps{Source: src, Stored: e.draft.Tests,
			Message: "Someone saved this draft since you opened it. Yours is in the editor, the stored tests below it. Saving again replaces the stored ones."})
	case ce != nil && ce.Code == console.CodeInvalid:
		return s.renderTests(w, r, http.StatusUnprocessableEntity, e, views.DraftTestsProps{Source: src, Message: "Not saved. " + strings.Join(append([]string{ce.Public}, fieldTexts(ce)...), " ")})
	}
	return err
}

func fieldTexts(e *console.Error) []string {
	var out []string
	for _, f := range e.Fields {
		out = append(out, f.Message)
	}
	return out
}
