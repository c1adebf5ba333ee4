package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/web/api"
)

// publishFlags are how something is published.
type publishFlags struct {
	Note         string            `help:"What it is for; kept with the version." placeholder:"TEXT"`
	Confirm      map[string]string `help:"Say that a change is meant, by the code that it is asked for: --confirm cut-half=yes." placeholder:"CODE=WORD"`
	BreakGlass   string            `help:"Publish without the approvals that it needs, for this reason; somebody else reviews it." placeholder:"REASON"`
	PasswordFile string            `help:"File with the password of the token's operator, for --break-glass; - is standard input." placeholder:"FILE"`
	Wait         bool              `help:"Wait until every gateway that it is for enforces it; status 3 when not all do."`
	Timeout      time.Duration     `help:"Longest wait." default:"30s"`
}

// canaryFlags are who gets it first.
type canaryFlags struct {
	CanaryCount   int           `help:"So many gateways first." placeholder:"N"`
	CanaryZone    string        `help:"The gateways of a zone first." placeholder:"ZONE"`
	CanaryHold    time.Duration `help:"At least so long before all others get it." default:"10m"`
	CanaryPromote bool          `help:"Give it to all others by itself after that, when nothing spoke against it."`
}

func (f publishFlags) options(p *config.Problems) api.Options {
	o := api.Options{Note: f.Note, Confirm: f.Confirm}
	if f.Timeout < 0 {
		p.Add("--timeout", "must not be negative")
	}
	if f.BreakGlass == "" {
		if f.PasswordFile != "" {
			p.Add("--password-file", "is for --break-glass alone")
		}
		return o
	}
	if f.PasswordFile == "" {
		p.Add("--password-file", "is needed with --break-glass")
	}
	o.BreakGlass = &api.BreakGlass{Reason: f.BreakGlass, Password: passwordFrom(p, f.PasswordFile)}
	return o
}

func (f canaryFlags) canary() *api.Canary {
	if f.CanaryCount == 0 && f.CanaryZone == "" {
		return nil
	}
	return &api.Canary{Count: f.CanaryCount, Zone: f.CanaryZone, Hold: f.CanaryHold.String(), Promote: f.CanaryPromote}
}

// policyPublishCmd publishes a file or a draft.
type policyPublishCmd struct {
	File   string `arg:"" optional:"" default:"policy.yaml" help:"Policy file, YAML or JSON; - is standard input."`
	Draft  string `help:"Draft to publish instead of a file." placeholder:"ID"`
	Base   string `help:"What has to be in force: v41, live (whatever is), or a file with the content; that which the file was pulled from when left out." placeholder:"BASE"`
	DryRun bool   `help:"Show what would change, and stop."`

	Tests   string `help:"File with the tests; beside policy.yaml it is policy.tests.yaml. Those in force stay when there is none." placeholder:"FILE"`
	NoTests bool   `help:"Publish it without tests, whatever is beside the file or in force."`
	publishFlags
	canaryFlags
	consoleAccess
	output
}

// publishedReport is what came of it, for programs.
type publishedReport struct {
	Version     int64            `json:"version"` // 0 when nothing was published
	Digest      string           `json:"digest"`
	Changes     []policy.Change  `json:"changes"`
	Publication *api.Publication `json:"publication,omitempty"` // with --wait

	what string // "v42 is stored."
}

// Run publishes, unless nothing would change.
func (c *policyPublishCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	client, o := c.client(&p), c.options(&p)
	o.Canary = c.canary()
	if c.Draft != "" && c.Base != "" {
		p.Add("--base", "is for files: a draft knows its own")
	}
	if err := p.Err(); err != nil {
		return err
	}
	at := publishing{client: client, flags: c.publishFlags, out: c.output, w: k.Stdout}
	if c.Draft != "" {
		return c.draft(ctx, at, o)
	}
	f, err := readPolicy(c.File, testFlags{c.Tests, c.NoTests})
	if err != nil {
		return err
	}
	if !f.ok() {
		if err := c.show(k.Stdout, f.checked(), f.print); err != nil {
			return err
		}
		return f.err()
	}
	return c.file(ctx, at, f, o)
}

// file publishes a file on its base.
func (c *policyPublishCmd) file(ctx context.Context, at publishing, f *policyFile, o api.Options) error {
	live, err := versionAt(ctx, at.client, 0)
	if err != nil {
		return err
	}
	if live == nil {
		live = &api.Version{}
	}
	before, err := liveDocument(*live)
	if err != nil {
		return err
	}
	report := publishedReport{Changes: append([]policy.Change{}, policy.Diff(before, f.doc)...)}
	if !c.JSON {
		printChanges(at.w, report.Changes)
	}
	there := live.Version > 0 && len(report.Changes) == 0 && !c.otherTests(f, live.Tests)
	base := live.Version
	if !there {
		if base, err = c.base(f, *live); err != nil {
			return err
		}
	}
	switch {
	case c.DryRun:
		return c.show(at.w, report, func(io.Writer) {})
	case there:
		report.what = fmt.Sprintf("v%d has this content already.", live.Version)
		return at.told(ctx, report, live.Version)
	}
	out, err := at.post(ctx, "/api/v1/policy/publish", "", withOptions(c.body(f, base), o))
	if err != nil {
		return c.refusedByConsole(at.w, f.name, f.testsName, err)
	}
	noteBase(f, out.Version)
	report.Digest, report.what = out.Digest, fmt.Sprintf("v%d is stored.", out.Version)
	return at.told(ctx, report, out.Version)
}

// otherTests reports whether the file's publication would change the tests in force.
func (c *policyPublishCmd) otherTests(f *policyFile, live string) bool {
	return (f.tests != nil || c.NoTests) && string(f.tests) != live
}

func (c *policyPublishCmd) body(f *policyFile, base int64) map[string]any {
	body := map[string]any{"document": string(f.src), "base_version": base}
	if f.tests != nil || c.NoTests {
		body["tests"] = string(f.tests)
	}
	return body
}

// noteBase notes what a file is based on from now on, if it has such a note. That
// this fails changes nothing about what is published.
func noteBase(f *policyFile, version int64) {
	if !originOf(f.src).known {
		return
	}
	if _, err := (origin{base: version}).note(f.name, f.src); err != nil {
		say(os.Stderr, "headgate: warning: v%d is published, and its number could not be noted: %v", version, err)
	}
}

// liveDocument is the document of the version in force; nil when nothing is.
func liveDocument(v api.Version) (*policy.Document, error) {
	if v.Version == 0 {
		return nil, nil
	}
	return documentOf(v)
}

var numberPattern = regexp.MustCompile(`^v?(\d{1,18})$`)

// base is the version that the publication is based on.
func (c *policyPublishCmd) base(f *policyFile, live api.Version) (int64, error) {
	if c.Base == "" {
		from := originOf(f.src)
		switch {
		case from.known:
			return from.base, nil
		case live.Version == 0:
			return 0, nil
		}
		return 0, problemsError("%s does not say which version it was made from; say --base v%d if that is the one, --base live to publish over whatever is in force, or name a file with the content that has to be in force", f.name, live.Version)
	}
	if c.Base == "live" {
		return live.Version, nil
	}
	if m := numberPattern.FindStringSubmatch(c.Base); m != nil {
		return strconv.ParseInt(m[1], 10, 64)
	}
	src, err := readFile(c.Base)
	if err != nil {
		return 0, err
	}
	doc, report := policy.ParseLoose(src)
	if doc == nil {
		return 0, &exitError{exitProblems, fmt.Errorf("%s cannot be read as a policy:\n%w", c.Base, report)}
	}
	if digest := policy.DigestOf(doc.Canonical()); live.Version > 0 && digest != live.Digest {
		return 0, fmt.Errorf("v%d is in force, and its content is not that of %s: somebody changed it elsewhere; compare with headgate policy diff %s live", live.Version, c.Base, c.Base)
	}
	return live.Version, nil
}

// draft publishes a draft as it is stored.
func (c *policyPublishCmd) draft(ctx context.Context, at publishing, o api.Options) error {
	_, etag, err := draftAt(ctx, at.client, c.Draft)
	if err != nil {
		return err
	}
	var ready api.Readiness
	path := "/api/v1/policy/drafts/" + c.Draft
	if err := at.client.do(ctx, http.MethodGet, path+"/readiness", nil, &ready); err != nil {
		return err
	}
	report := publishedReport{Changes: []policy.Change{}}
	for _, ch := range ready.Changes {
		report.Changes = append(report.Changes, ch.Change)
	}
	if !c.JSON {
		printChanges(at.w, report.Changes)
	}
	if c.DryRun {
		if err := c.show(at.w, report, func(io.Writer) {}); err != nil || ready.Blocked == "" {
			return err
		}
		return errors.New(ready.Blocked)
	}
	out, err := at.post(ctx, path+"/publish", etag, withOptions(map[string]any{}, o))
	if err != nil {
		return c.refusedByConsole(at.w, c.Draft, c.Draft, err)
	}
	report.Digest, report.what = out.Digest, fmt.Sprintf("v%d is stored.", out.Version)
	return at.told(ctx, report, out.Version)
}

// withOptions puts options into a body. What is confirmed always goes along, even
// if it is nothing: whoever sits at a shell is asked for everything.
func withOptions(body map[string]any, o api.Options) map[string]any {
	body["note"], body["confirm"] = o.Note, map[string]string{}
	if len(o.Confirm) > 0 {
		body["confirm"] = o.Confirm
	}
	if o.Canary != nil {
		body["canary"] = o.Canary
	}
	if o.BreakGlass != nil {
		body["break_glass"] = o.BreakGlass
	}
	return body
}

// newKey is a key for a call that may be repeated.
func newKey() (string, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("make idempotency key: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}
