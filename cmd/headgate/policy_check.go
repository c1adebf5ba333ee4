package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/policy/scenario"
	"github.com/headgate/headgate/policy/schema"
	"github.com/headgate/headgate/replay"
	"github.com/headgate/headgate/web/api"
)

// policyValidateCmd checks files.
type policyValidateCmd struct {
	Files   []string `arg:"" name:"file" help:"Policy files, YAML or JSON; - is standard input. Tests beside a file are checked with it."`
	NoTests bool     `help:"Leave the tests beside the files out."`
	output
}

// checked is what was found in one file.
type checked struct {
	File          string              `json:"file"`
	Problems      []api.PolicyProblem `json:"problems"`
	Warnings      []api.PolicyProblem `json:"warnings"`
	Tests         string              `json:"tests,omitempty"` // file; absent when there are none
	TestProblems  []api.PolicyProblem `json:"test_problems,omitempty"`
	TestWarnings  []api.PolicyProblem `json:"test_warnings,omitempty"`
	DocumentBytes int                 `json:"document_bytes"`
}

// Run checks all files and tells every problem of each.
func (c *policyValidateCmd) Run(_ context.Context, k *kong.Kong) error {
	var all []checked
	var failed error
	for _, name := range c.Files {
		f, err := readPolicy(name, testFlags{NoTests: c.NoTests})
		if err != nil {
			return err
		}
		if !c.JSON {
			f.print(k.Stdout)
		}
		all = append(all, f.checked())
		failed = errors.Join(failed, f.err())
	}
	if err := c.show(k.Stdout, all, func(w io.Writer) {
		if failed == nil {
			say(w, "%s: no problems", counted(len(c.Files), "file"))
		}
	}); err != nil || failed == nil {
		return err
	}
	return &exitError{exitProblems, failed}
}

func (f *policyFile) checked() checked {
	out := checked{
		File: f.name, Problems: api.PolicyProblems(f.report.Problems), Warnings: api.PolicyProblems(f.report.Warnings), DocumentBytes: len(f.src),
	}
	if f.tests != nil {
		out.Tests = f.testsName
		out.TestProblems, out.TestWarnings = api.PolicyProblems(f.testsReport.Problems), api.PolicyProblems(f.testsReport.Warnings)
	}
	return out
}

// policyTestCmd runs tests.
type policyTestCmd struct {
	File      string        `arg:"" optional:"" default:"policy.yaml" help:"Policy file, YAML or JSON; - is standard input."`
	Tests     string        `help:"File with the tests; beside policy.yaml it is policy.tests.yaml." placeholder:"FILE"`
	Score     bool          `help:"Also say which small changes of the policy no test would notice."`
	MinScore  int           `help:"Fail (status 2) when less than so many percent of them are noticed; implies --score." placeholder:"PERCENT"`
	ScoreTime time.Duration `help:"Longest time for the score." default:"1m"`
	OnConsole bool          `help:"Run them on the console, which knows the tenants that tests name."`
	consoleAccess
	output
}

// testReport is how tests went, for programs.
type testReport struct {
	File    string            `json:"file"`
	Tests   string            `json:"tests"`
	Passed  bool              `json:"passed"`
	Results []scenario.Result `json:"results"`
	Score   *scenario.Score   `json:"score,omitempty"`
}

// Run runs the tests.
func (c *policyTestCmd) Run(ctx context.Context, k *kong.Kong) error {
	if c.MinScore < 0 || c.MinScore > 100 {
		return problemsError("--min-score must be 0 to 100")
	}
	f, err := readPolicy(c.File, testFlags{Tests: c.Tests})
	if err != nil {
		return err
	}
	if f.tests == nil {
		return problemsError("there are no tests: %s does not exist; name their file with --tests", f.testsName)
	}
	if !f.ok() {
		if err := c.show(k.Stdout, f.checked(), f.print); err != nil {
			return err
		}
		return f.err()
	}
	report := testReport{File: f.name, Tests: f.testsName}
	if report.Results, err = c.results(ctx, f); err != nil {
		return err
	}
	report.Passed = !slices.ContainsFunc(report.Results, func(r scenario.Result) bool { return !r.Passed })
	if report.Passed && (c.Score || c.MinScore > 0) {
		if report.Score, err = c.score(ctx, f); err != nil {
			return err
		}
	}
	if err := c.show(k.Stdout, report, func(w io.Writer) { c.print(w, report) }); err != nil {
		return err
	}
	return c.verdict(report)
}

// results runs the tests here or on the console.
func (c *policyTestCmd) results(ctx context.Context, f *policyFile) ([]scenario.Result, error) {
	if !c.OnConsole {
		return replay.Engine{}.Test(ctx, f.doc, f.suite, nil)
	}
	var p config.Problems
	client := c.client(&p)
	if err := p.Err(); err != nil {
		return nil, err
	}
	var out struct {
		Problems     []api.PolicyProblem `json:"problems"`
		TestProblems []api.PolicyProblem `json:"test_problems"`
		Results      []scenario.Result   `json:"results"`
	}
	err := client.do(ctx, "POST", "/api/v1/policy/test", map[string]any{"document": string(f.src), "tests": string(f.tests)}, &out)
	if found := append(out.Problems, out.TestProblems...); err == nil && len(found) > 0 {
		err = problemsError("the console finds %s: %s", counted(len(found), "problem"), pathed(found[0].Path, found[0].Message))
	}
	return out.Results, err
}

func (c *policyTestCmd) score(ctx context.Context, f *policyFile) (*scenario.Score, error) {
	within, cancel := context.WithTimeout(ctx, c.ScoreTime)
	defer cancel()
	score, err := replay.Engine{}.Score(within, f.doc, f.suite, nil)
	return &score, err
}

func (c *policyTestCmd) print(w io.Writer, r testReport) {
	printResults(w, r.Results, true)
	if !r.Passed && !c.OnConsole && slices.ContainsFunc(r.Results, func(r scenario.Result) bool { return !r.Passed && len(r.Steps) == 0 }) {
		say(w, "Tenants are known to the console alone: tests that name one run with --on-console.")
	}
	if r.Score == nil {
		return
	}
	say(w, "Noticed %d of %d small changes of the policy%s.", r.Score.Killed, r.Score.Total, map[bool]string{true: "; the time ran out before all were tried"}[r.Score.Partial])
	for _, m := range r.Score.Mutants {
		if !m.Killed {
			say(w, "  %s: %s", m.Path, m.Text)
		}
	}
}

// printResults prints each test that failed and, where all are wanted, that passed.
func printResults(w io.Writer, results []scenario.Result, all bool) {
	passed := 0
	for _, r := range results {
		switch {
		case !r.Passed:
			say(w, "FAIL  %s\n      %s", r.Name, r.Detail)
		case all:
			say(w, "ok    %s", r.Name)
		}
		if r.Passed {
			passed++
		}
	}
	say(w, "%d of %s passed", passed, counted(len(results), "test"))
}

// verdict is the error of tests that failed or notice too little.
func (c *policyTestCmd) verdict(r testReport) error {
	failed := 0
	for _, t := range r.Results {
		if !t.Passed {
			failed++
		}
	}
	if failed > 0 {
		return problemsError("%s of %s failed", counted(failed, "test"), r.Tests)
	}
	if s := r.Score; s != nil && s.Total > 0 && s.Killed*100 < c.MinScore*s.Total {
		return problemsError("the tests notice %d of %d small changes, and %d %% are asked for", s.Killed, s.Total, c.MinScore)
	}
	return nil
}

// policySchemaCmd prints a JSON Schema.
type policySchemaCmd struct {
	Of  string `arg:"" optional:"" enum:"policy,tests" default:"policy" help:"policy or tests."`
	Out string `help:"File to write instead of standard output." short:"o" placeholder:"FILE"`
}

// Run prints it.
func (c *policySchemaCmd) Run(_ context.Context, k *kong.Kong) error {
	text := schema.Policy()
	if c.Of == "tests" {
		text = schema.Tests()
	}
	return writeOut(k.Stdout, c.Out, text)
}

// writeOut writes to a file, or to w when none is named.
func writeOut(w io.Writer, file string, content []byte) error {
	if file != "" && file != standardInput {
		return replaceFile(file, content)
	}
	if !bytes.HasSuffix(content, []byte("\n")) {
		content = append(content, '\n')
	}
	_, err := w.Write(content)
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
