package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/web/api"
)

// policyPushCmd saves a file as a draft.
type policyPushCmd struct {
	File  string `arg:"" optional:"" default:"policy.yaml" help:"Policy file, YAML or JSON; - is standard input."`
	Draft string `help:"Draft to save to; that which the file was pulled from or pushed to, else a new one." placeholder:"ID"`
	Name  string `help:"Name of a new draft; the file's when left out." placeholder:"NAME"`
	New   bool   `help:"Begin a new draft, even if the file came from one."`
	Force bool   `help:"Save it though it has problems, somebody changed the draft, or a version was published since."`

	Tests   string `help:"File with the tests; beside policy.yaml it is policy.tests.yaml." placeholder:"FILE"`
	NoTests bool   `help:"Leave the tests alone: the draft keeps its own."`
	consoleAccess
	output
}

var draftPattern = regexp.MustCompile(`^drf_[a-z0-9]{1,40}$`)

// bare is an ETag without its quotes.
func bare(etag string) string { return strings.Trim(etag, `"`) }

// saved is what was pushed, for programs.
type saved struct {
	Draft string `json:"draft"`
	Name  string `json:"name"`
	Base  int64  `json:"base_version"`
	ETag  string `json:"etag"`
	URL   string `json:"url"`
}

// Run saves document and tests.
func (c *policyPushCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	client := c.client(&p)
	if c.New && c.Draft != "" {
		p.Add("--draft", "is given together with --new; only one of them may be")
	}
	if err := p.Err(); err != nil {
		return err
	}
	f, err := readPolicy(c.File, testFlags{c.Tests, c.NoTests})
	if err != nil {
		return err
	}
	if !f.ok() && !c.Force {
		if err := c.show(k.Stdout, f.checked(), f.print); err != nil {
			return err
		}
		return f.err()
	}
	d, etag, err := c.save(ctx, client, f)
	if err != nil {
		return c.refusedByConsole(k.Stdout, f.name, f.testsName, err)
	}
	if d, etag, err = c.saveTests(ctx, client, f, d, etag); err != nil {
		return c.refusedByConsole(k.Stdout, f.name, f.testsName, err)
	}
	if _, err := (origin{base: d.BaseVersion, draft: d.ID, etag: bare(etag)}).note(f.name, f.src); err != nil {
		return err
	}
	out := saved{Draft: d.ID, Name: d.Name, Base: d.BaseVersion, ETag: bare(etag), URL: client.base + "/policy/drafts/" + d.ID}
	return c.show(k.Stdout, out, func(w io.Writer) { say(w, "%s is saved as the draft %q: %s", f.name, out.Name, out.URL) })
}

// save saves the document to the draft that it belongs to, or to a new one.
func (c *policyPushCmd) save(ctx context.Context, client *apiClient, f *policyFile) (api.Draft, string, error) {
	from := originOf(f.src)
	id, etag := c.Draft, ""
	if id == "" && !c.New {
		id = from.draft
	}
	if id == from.draft && !c.Force {
		etag = from.etag
	}
	if id == "" {
		return c.begin(ctx, client, f, from)
	}
	if err := c.current(ctx, client, f, from); err != nil {
		return api.Draft{}, "", err
	}
	if etag == "" {
		_, now, err := draftAt(ctx, client, id)
		if err != nil {
			return api.Draft{}, "", err
		}
		etag = bare(now)
	}
	var d api.Draft
	a, err := client.send(ctx, apiCall{
		method: http.MethodPut, path: "/api/v1/policy/drafts/" + id, ifMatch: `"` + etag + `"`, body: map[string]any{"document": string(withoutNote(f.src))},
	}, &d)
	switch e, ok := errors.AsType[*apiError](err); {
	case ok && e.status == http.StatusPreconditionFailed:
		err = fmt.Errorf("somebody changed the draft %s since %s was pulled: pull it into another file and compare, or overwrite it with --force", id, f.name)
	case ok && e.status == http.StatusNotFound:
		err = fmt.Errorf("there is no draft %s: it was published or deleted; --new begins another one", id)
	}
	if err != nil || !from.known || d.BaseVersion == from.base {
		return d, a.etag, err
	}
	// The file was merged with what was published since the draft's base.
	a, err = client.send(ctx, apiCall{method: http.MethodPost, path: "/api/v1/policy/drafts/" + id + "/rebase", ifMatch: a.etag}, &d)
	return d, a.etag, err
}

// current refuses a file that was made from an older version than the one in force:
// based on that, it would take back what was published since.
func (c *policyPushCmd) current(ctx context.Context, client *apiClient, f *policyFile, from origin) error {
	if !from.known || c.Force {
		return nil
	}
	live, err := versionAt(ctx, client, 0)
	if err == nil && live != nil && live.Version != from.base {
		err = fmt.Errorf("%s was made from v%d, and v%d is in force now: pull --merge first", f.name, from.base, live.Version)
	}
	return err
}

// begin makes a new draft, which is based on the version in force.
func (c *policyPushCmd) begin(ctx context.Context, client *apiClient, f *policyFile, from origin) (api.Draft, string, error) {
	if err := c.current(ctx, client, f, from); err != nil {
		return api.Draft{}, "", err
	}
	name := c.Name
	if name == "" {
		name = f.name
	}
	var d api.Draft
	key, err := newKey()
	if err != nil {
		return d, "", err
	}
	a, err := client.send(ctx, apiCall{
		method: http.MethodPost, path: "/api/v1/policy/drafts", key: key, body: map[string]any{"name": name, "document": string(withoutNote(f.src))},
	}, &d)
	return d, a.etag, err
}

// saveTests saves the tests, where there are some and they are others.
func (c *policyPushCmd) saveTests(ctx context.Context, client *apiClient, f *policyFile, d api.Draft, etag string) (api.Draft, string, error) {
	if f.tests == nil || string(f.tests) == d.Tests {
		return d, etag, nil
	}
	if etag == "" { // the answer to a repeated creation has none
		_, now, err := draftAt(ctx, client, d.ID)
		if err != nil {
			return d, "", err
		}
		etag = now
	}
	a, err := client.send(ctx, apiCall{
		method: http.MethodPut, path: "/api/v1/policy/drafts/" + d.ID + "/tests", ifMatch: etag, body: map[string]any{"tests": string(f.tests)},
	}, &d)
	return d, a.etag, err
}
