package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/web/api"
)

// policyDiffCmd compares two policies.
type policyDiffCmd struct {
	From     string `arg:"" optional:"" name:"policy" help:"File, live (the version in force) or v41 (a version). With one argument: from live to it."`
	To       string `arg:"" optional:"" name:"other" help:"File, live or v41."`
	ExitCode bool   `help:"Status 2 when there are differences; else it is 0 then, too."`
	consoleAccess
	output
}

// comparison is what changes, for programs.
type comparison struct {
	From    string          `json:"from"`
	To      string          `json:"to"`
	Changes []policy.Change `json:"changes"`
}

// Run compares and prints.
func (c *policyDiffCmd) Run(ctx context.Context, k *kong.Kong) error {
	from, to := c.From, c.To
	if from == "" {
		return errors.New("say what to compare: headgate policy diff POLICY compares the version in force with it, headgate policy diff POLICY OTHER the two; each is a file, live or v41")
	}
	if to == "" {
		from, to = "live", c.From
	}
	client, err := c.clientFor(from, to)
	if err != nil {
		return err
	}
	before, err := documentAt(ctx, client, from)
	if err != nil {
		return err
	}
	after, err := documentAt(ctx, client, to)
	if err != nil {
		return err
	}
	if after == nil {
		return fmt.Errorf("there is no version in force that %s could be compared with", from)
	}
	out := comparison{From: from, To: to, Changes: append([]policy.Change{}, policy.Diff(before, after)...)}
	if err := c.show(k.Stdout, out, func(w io.Writer) { printChanges(w, out.Changes) }); err != nil {
		return err
	}
	if c.ExitCode && len(out.Changes) > 0 {
		return problemsError("%s between %s and %s", counted(len(out.Changes), "difference"), from, to)
	}
	return nil
}

// clientFor is the way to the console when something of it is compared; else nil.
func (c *policyDiffCmd) clientFor(names ...string) (*apiClient, error) {
	for _, name := range names {
		if _, remote := versionName(name); remote {
			var p config.Problems
			client := c.client(&p)
			return client, p.Err()
		}
	}
	return nil, nil
}

var versionPattern = regexp.MustCompile(`^v([1-9]\d{0,17})$`)

// versionName is the version that a name means, 0 for the one in force; false for
// a file. A file of such a name is meant with ./ before it.
func versionName(name string) (int64, bool) {
	if name == "live" {
		return 0, true
	}
	m := versionPattern.FindStringSubmatch(name)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	return n, err == nil
}

// documentAt reads a file or a version; nil when nothing is in force.
func documentAt(ctx context.Context, client *apiClient, name string) (*policy.Document, error) {
	n, remote := versionName(name)
	if !remote {
		src, err := readFile(name)
		if err != nil {
			return nil, err
		}
		doc, report := policy.ParseLoose(src)
		if doc == nil {
			return nil, &exitError{exitProblems, fmt.Errorf("%s cannot be read as a policy:\n%w", name, report)}
		}
		return doc, nil
	}
	v, err := versionAt(ctx, client, n)
	if err != nil || v == nil {
		return nil, err
	}
	return documentOf(*v)
}

// versionAt asks for a version, 0 for the one in force; nil when nothing is.
func versionAt(ctx context.Context, client *apiClient, n int64) (*api.Version, error) {
	path := "/api/v1/policy"
	if n > 0 {
		path = fmt.Sprintf("/api/v1/policy/versions/%d", n)
	}
	var v api.Version
	err := client.do(ctx, http.MethodGet, path, nil, &v)
	if e, ok := errors.AsType[*apiError](err); ok && e.status == http.StatusNotFound {
		if n > 0 {
			return nil, fmt.Errorf("there is no v%d", n)
		}
		return nil, nil
	}
	return &v, err
}

// documentOf reads a version's document, which a newer console may have written.
func documentOf(v api.Version) (*policy.Document, error) {
	doc, report := policy.ParseLoose(v.Document)
	if doc == nil {
		return nil, fmt.Errorf("v%d cannot be read by this build of headgate:\n%w", v.Version, report)
	}
	return doc, nil
}

// printChanges prints changes, the riskiest first.
func printChanges(w io.Writer, changes []policy.Change) {
	if len(changes) == 0 {
		say(w, "Nothing changes.")
	}
	for _, g := range policy.ByRisk(changes) {
		say(w, "%s risk:", strings.ToUpper(g.Risk[:1])+g.Risk[1:])
		for _, c := range g.Changes {
			say(w, "  %s (%s)", c.Text, c.Effect)
		}
	}
}
