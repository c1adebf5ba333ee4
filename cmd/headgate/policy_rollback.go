package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/policy"
)

// policyRollbackCmd publishes an old version again.
type policyRollbackCmd struct {
	Version string `arg:"" help:"The version whose content comes back: 41 or v41."`
	publishFlags
	consoleAccess
	output
}

// Run rolls back.
func (c *policyRollbackCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	client, o := c.client(&p), c.options(&p)
	m := numberPattern.FindStringSubmatch(c.Version)
	if m == nil {
		p.Add("VERSION", "must be a version's number, as in v41")
	}
	if err := p.Err(); err != nil {
		return err
	}
	at := publishing{client: client, flags: c.publishFlags, out: c.output, w: k.Stdout}
	live, err := versionAt(ctx, client, 0)
	if err != nil {
		return err
	}
	old, err := documentAt(ctx, client, "v"+m[1])
	if err != nil {
		return err
	}
	if live == nil || old == nil {
		return errors.New("nothing has been published yet")
	}
	before, err := documentOf(*live)
	if err != nil {
		return err
	}
	report := publishedReport{Changes: append([]policy.Change{}, policy.Diff(before, old)...)}
	if !c.JSON {
		printChanges(k.Stdout, report.Changes)
	}
	out, err := at.post(ctx, "/api/v1/policy/versions/"+m[1]+"/rollback", "", withOptions(map[string]any{}, o))
	if err != nil {
		return c.refusedByConsole(k.Stdout, "v"+m[1], "tests of v"+m[1], err)
	}
	report.Digest, report.what = out.Digest, fmt.Sprintf("v%d is stored, with the content of v%s.", out.Version, m[1])
	return at.told(ctx, report, out.Version)
}
