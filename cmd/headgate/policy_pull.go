package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/web/api"
)

// policyPullCmd writes what the console has to files.
type policyPullCmd struct {
	File   string `arg:"" optional:"" default:"policy.yaml" help:"File to write; the tests go beside it. - is standard output, without tests."`
	Number int64  `help:"Version to write instead of the one in force." placeholder:"N"`
	Draft  string `help:"Draft to write instead of a version." placeholder:"ID"`
	Merge  bool   `help:"Keep what was changed in the file since it was pulled, and put what was published since into it."`
	Force  bool   `help:"Overwrite a file that has another content."`
	consoleAccess
}

// pulled is what a file is to hold.
type pulled struct {
	origin
	what  string // "v41", "drf_…"
	src   []byte
	tests string
}

// Run writes the files.
func (c *policyPullCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	client := c.client(&p)
	if c.Number < 0 {
		p.Add("--number", "must be a version's number")
	}
	if c.Number > 0 && c.Draft != "" {
		p.Add("--draft", "is given together with --number; only one of them may be")
	}
	if c.Merge && (c.Draft != "" || c.Number > 0 || c.File == standardInput) {
		p.Add("--merge", "takes the version in force, and a file")
	}
	if err := p.Err(); err != nil {
		return err
	}
	got, err := c.fetch(ctx, client)
	if err != nil {
		return err
	}
	switch {
	case c.File == standardInput:
		return writeOut(k.Stdout, "", got.src)
	case c.Merge:
		return c.merge(ctx, k.Stdout, client, got)
	}
	return c.write(k.Stdout, got)
}

func (c *policyPullCmd) fetch(ctx context.Context, client *apiClient) (pulled, error) {
	if c.Draft != "" {
		d, etag, err := draftAt(ctx, client, c.Draft)
		return pulled{origin{d.BaseVersion, d.ID, bare(etag), true}, d.ID, []byte(d.Document), d.Tests}, err
	}
	v, err := versionAt(ctx, client, c.Number)
	if err != nil {
		return pulled{}, err
	}
	if v == nil {
		return pulled{}, errors.New("nothing has been published yet")
	}
	doc, err := documentOf(*v)
	if err != nil {
		return pulled{}, err
	}
	return pulled{origin{base: v.Version, known: true}, fmt.Sprintf("v%d", v.Version), doc.YAML(), v.Tests}, nil
}

// write writes document and tests. A file that means the same keeps its comments.
func (c *policyPullCmd) write(w io.Writer, got pulled) error {
	had, err := os.ReadFile(c.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tests := testsBeside(c.File)
	hadTests, terr := os.ReadFile(tests)
	if terr != nil && !errors.Is(terr, fs.ErrNotExist) {
		return terr
	}
	if err == nil && same(had, got.src) {
		got.src = had
	} else if err == nil && !c.Force {
		return fmt.Errorf("%s has another content than %s: --merge keeps what was changed, --force overwrites it", c.File, got.what)
	}
	there := terr == nil
	if there && string(hadTests) != got.tests && !c.Force {
		return fmt.Errorf("%s has another content than the tests of %s: --force overwrites it", tests, got.what)
	}
	if err := replaceFile(c.File, got.noted(got.src)); err != nil {
		return err
	}
	say(w, "%s: %s", c.File, got.what)
	if got.tests == "" && !there {
		return nil
	}
	if err := replaceFile(tests, []byte(got.tests)); err != nil {
		return err
	}
	say(w, "%s: tests of %s", tests, got.what)
	return nil
}

// same reports whether two documents mean the same.
func same(a, b []byte) bool {
	one, _ := policy.ParseLoose(a)
	other, _ := policy.ParseLoose(b)
	return one != nil && other != nil && string(one.Canonical()) == string(other.Canonical())
}

// merge puts what was published since the file was pulled into it.
func (c *policyPullCmd) merge(ctx context.Context, w io.Writer, client *apiClient, got pulled) error {
	had, err := readFile(c.File)
	if err != nil {
		return err
	}
	from := originOf(had)
	if !from.known {
		return fmt.Errorf("%s does not say which version it was made from: it has no line \"# headgate: base v41\" at its top", c.File)
	}
	mine, report := policy.ParseLoose(had)
	if mine == nil {
		return &exitError{exitProblems, fmt.Errorf("%s cannot be read as a policy:\n%w", c.File, report)}
	}
	theirs, _ := policy.ParseLoose(got.src)
	var base *policy.Document
	if from.base > 0 {
		if base, err = documentAt(ctx, client, fmt.Sprintf("v%d", from.base)); err != nil {
			return err
		}
	}
	merged, clashes := policy.Merge(base, mine, theirs)
	src := had // with its comments, when nothing is put into it
	if string(merged.Canonical()) != string(mine.Canonical()) {
		src = merged.YAML()
	}
	got.draft, got.etag = from.draft, from.etag // push bases that draft anew, too
	if err := replaceFile(c.File, got.noted(src)); err != nil {
		return err
	}
	say(w, "%s: %s, and what was changed since v%d", c.File, got.what, from.base)
	for _, clash := range clashes {
		say(w, "both changed: %s; the file's stayed", clash)
	}
	if len(clashes) > 0 {
		return problemsError("%s: look at them before you publish", counted(len(clashes), "place"))
	}
	return nil
}

// draftAt asks for a draft and its ETag, quoted.
func draftAt(ctx context.Context, client *apiClient, id string) (d api.Draft, etag string, err error) {
	if !draftPattern.MatchString(id) {
		return d, "", problemsError("--draft must be a draft's id, as in drf_abcdefghij234567")
	}
	a, err := client.send(ctx, apiCall{method: http.MethodGet, path: "/api/v1/policy/drafts/" + id}, &d)
	return d, a.etag, err
}
