package console

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
)

// maxIdle bounds how many limits are named of which overrides would be without effect.
const maxIdle = 10

// addIdleOverrides warns of limits that a document lacks and tenants have values
// of their own for: these stay and have no effect.
func addIdleOverrides(ctx context.Context, tx Tx, doc *policy.Document, now time.Time, report *policy.Report) error {
	counts, err := tx.CountOverrides(ctx, now)
	if err != nil {
		return err
	}
	var idle []OverrideCount
	for _, c := range counts {
		if _, has := doc.Plans[c.Plan]; has && !meets(doc, c.Plan, c.Limit) { // a plan that is missing is a problem of its own
			idle = append(idle, c)
		}
	}
	for _, c := range idle[:min(len(idle), maxIdle)] {
		report.Warnings = append(report.Warnings, policy.Problem{Message: fmt.Sprintf(
			"no limit %s is met on plan %s: the own values of %s for it stay, without effect", c.Limit, c.Plan, tenantCount(c.Tenants))})
	}
	if more := len(idle) - maxIdle; more > 0 {
		report.Warnings = append(report.Warnings, policy.Problem{Message: fmt.Sprintf("the same is so of %d more limits and plans", more)})
	}
	return nil
}

func tenantCount(n int64) string {
	if n == 1 {
		return "1 tenant"
	}
	return fmt.Sprintf("%d tenants", n)
}

// meets reports whether a tenant on a plan meets a limit.
func meets(doc *policy.Document, plan, id string) bool {
	p := doc.Plans[plan]
	named := func(list []policy.Limit, name string) bool {
		return slices.ContainsFunc(list, func(l policy.Limit) bool { return l.Name == name })
	}
	if id == policy.QuotaID {
		return p.Quota != nil
	}
	if name, ok := strings.CutPrefix(id, "plan."); ok {
		return named(p.Limits, name)
	}
	shared, isShared := strings.CutPrefix(id, "shared:")
	route, name, _ := strings.Cut(strings.TrimPrefix(id, "route:"), ".")
	return slices.ContainsFunc(doc.Routes, func(r policy.Route) bool {
		switch {
		case r.Identity != policy.IdentityAPIKey:
			return false
		case isShared:
			return slices.Contains(r.Uses, shared)
		case r.Name != route:
			return false
		}
		return named(r.Limits, name) || name == "concurrency" && r.Concurrency != nil
	})
}
