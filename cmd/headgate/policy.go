package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/web/api"
)

// policyCmd is `headgate policy`: policy as a file. What needs no console works
// without one.
type policyCmd struct {
	Validate policyValidateCmd `cmd:"" help:"Check policy files and their tests; needs no console."`
	Diff     policyDiffCmd     `cmd:"" help:"What changes from one policy to another, by risk: two files, or versions of the console."`
	Test     policyTestCmd     `cmd:"" help:"Run a policy's tests on a virtual clock; needs no console."`
	Pull     policyPullCmd     `cmd:"" help:"Write the policy in force, or a draft, to a file and its tests beside it."`
	Push     policyPushCmd     `cmd:"" help:"Save a policy file and its tests as a draft."`
	Publish  policyPublishCmd  `cmd:"" help:"Publish a policy file and its tests, or a draft."`
	Rollback policyRollbackCmd `cmd:"" help:"Publish the content of an old version again."`
	Simulate policySimulateCmd `cmd:"" help:"Replay logged traffic under a policy file or a draft: whom it would refuse."`
	Import   policyImportCmd   `cmd:"" help:"Make a policy of what another program knows; needs no console."`
	Schema   policySchemaCmd   `cmd:"" help:"Print the JSON Schema of the policy document or of its tests, for editors."`
}

// Statuses besides 0 and 1.
const (
	exitProblems      = 2 // the document or its tests have problems, or something has to be confirmed
	exitNotEverywhere = 3 // it is stored, and not every gateway enforces it
)

// exitError is an error with an exit status.
type exitError struct {
	status int
	err    error
}

// Error is the error's text.
func (e *exitError) Error() string { return e.err.Error() }

// Unwrap is the error.
func (e *exitError) Unwrap() error { return e.err }

func problemsError(format string, args ...any) error {
	return &exitError{exitProblems, fmt.Errorf(format, args...)}
}

// consoleAccess is how commands reach the console.
type consoleAccess struct {
	ConsoleURL    string `name:"console-url" help:"The console: https://HOST[:PORT]." placeholder:"URL"`
	Token         string `help:"API token of an operator, as headgate user token prints it." placeholder:"TOKEN"`
	TokenFile     string `help:"File that holds that token." placeholder:"FILE"`
	ConsoleCAFile string `name:"console-ca-file" help:"Authority of the console's certificate (PEM) instead of the system's." placeholder:"FILE"`

	Retry time.Duration `help:"For how long calls are repeated while the console is busy or away." default:"30s"`
}

// client makes the way to the console; problems are added to p.
func (c consoleAccess) client(p *config.Problems) *apiClient {
	out := &apiClient{token: config.Secret(p, "--token", c.Token, c.TokenFile), patience: c.Retry}
	p.Require("--console-url", c.ConsoleURL)
	if c.Token == "" && c.TokenFile == "" {
		p.Add("--token", "is required (or set HEADGATE_TOKEN, or --token-file)")
	}
	u, err := url.Parse(c.ConsoleURL)
	if c.ConsoleURL != "" && (err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil) {
		p.Add("--console-url", "must be https://HOST[:PORT]")
	}
	out.base = strings.TrimRight(c.ConsoleURL, "/")
	out.http = &http.Client{Timeout: 100 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if c.ConsoleCAFile != "" {
		out.http.Transport = trusting(p, c.ConsoleCAFile)
	}
	return out
}

// trusting is a transport that believes the authority of a file alone.
func trusting(p *config.Problems, file string) http.RoundTripper {
	raw, err := os.ReadFile(file)
	if err != nil {
		p.Add("--console-ca-file", "%v", err)
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		p.Add("--console-ca-file", "%s holds no certificate", file)
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
}

// output is whether a command speaks to people or to programs.
type output struct {
	JSON bool `name:"json" help:"Print JSON, for programs."`
}

// show prints v as JSON, or what text prints.
func (o output) show(w io.Writer, v any, text func(io.Writer)) error {
	if !o.JSON {
		text(w)
		return nil
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// printProblems prints what is wrong with a file, one a line.
func printProblems(w io.Writer, file string, r policy.Report) {
	for _, p := range r.Problems {
		say(w, "%s: %s", placeOf(file, p.Line), pathed(p.Path, p.Message))
	}
	for _, p := range r.Warnings {
		say(w, "%s: warning: %s", placeOf(file, p.Line), pathed(p.Path, p.Message))
	}
}

func placeOf(file string, line int) string {
	if line > 0 {
		return fmt.Sprintf("%s:%d", file, line)
	}
	return file
}

func pathed(path, message string) string {
	if path == "" {
		return message
	}
	return path + ": " + message
}

// say prints a line. That nobody reads it any more is no failure of the command.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }

// counted is a number with its noun: "1 problem", "3 problems".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// refusedByConsole tells people or programs why the console refused, and gives
// the error its status.
func (o output) refusedByConsole(w io.Writer, file, tests string, err error) error {
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		return err
	}
	if e.problem.Code != "" {
		if serr := o.show(w, e.problem, func(w io.Writer) { tellProblem(w, file, tests, e.problem) }); serr != nil {
			return serr
		}
	}
	if e.status == http.StatusUnprocessableEntity {
		return &exitError{exitProblems, err}
	}
	return err
}

// tellProblem prints what a problem says besides its detail.
func tellProblem(w io.Writer, file, tests string, p api.Problem) {
	if p.Code == "invalid-tests" {
		file = tests
	}
	printProblems(w, file, reportOf(p.Problems, p.Warnings))
	if p.Code == "tests-failed" {
		printResults(w, p.TestResults, false)
	}
	for _, c := range p.Confirmations {
		word := c.Word
		if word == "" {
			word = "yes"
		}
		say(w, "to confirm: --confirm %s=%s\n  %s", c.Code, quotedArg(word), c.Text)
	}
	for _, n := range p.Needed {
		say(w, "approvals: %d of %d for %s, because of %s", n.Have, n.Rule.Approvals, n.Rule.When, n.Why)
	}
	if p.HeadVersion != nil {
		say(w, "Published since v%d:", *p.BaseVersion)
		printChanges(w, p.Changes)
	}
}

// quotedArg is a word as a shell takes it.
func quotedArg(word string) string {
	if strings.Contains(word, " ") {
		return `"` + word + `"`
	}
	return word
}

func reportOf(problems, warnings []api.PolicyProblem) (r policy.Report) {
	for _, p := range problems {
		r.Problems = append(r.Problems, policy.Problem{Path: p.Path, Line: p.Line, Message: p.Message})
	}
	for _, p := range warnings {
		r.Warnings = append(r.Warnings, policy.Problem{Path: p.Path, Line: p.Line, Message: p.Message})
	}
	return r
}
