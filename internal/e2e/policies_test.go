package e2e_test

import (
	"fmt"
	"strings"
)

// document is a policy with one plan, an open and a closed route, in YAML.
// Numbers are what a test changes.
func document(requests, burst int) string {
	return fmt.Sprintf(`apiVersion: headgate/v1
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: %d/minute, burst: %d}]
  pro:
    limits: [{name: requests, per: tenant, counts: requests, rate: 60000/minute, burst: 10000}]
routes:
  - name: closed
    match: ["/closed/"]
    identity: api_key
    motive: quota
    on_store_failure: {mode: closed}
  - name: open
    match: ["/"]
    identity: api_key
    motive: fairness
    on_store_failure: {mode: open, fallback: {rate: 6/minute, burst: 5}}
`, requests, burst)
}

// mistaken is the document with five mistakes; mistakes are their paths.
func mistaken() (doc string, mistakes []string) {
	doc = strings.NewReplacer(
		"rate: 60/minute, burst: 60", "rate: fast, burst: 60", // not a rate
		"rate: 60000/minute, burst: 10000", "rate: 60000/minute, burst: -1", // not a burst
		"motive: quota", "motive: greed", // no such motive
		"mode: closed", "mode: ajar", // no such mode
		`match: ["/"]`, `match: ["GET"]`, // not a pattern
	).Replace(document(60, 60))
	return doc, []string{
		"plans.free.limits[0].rate", "plans.pro.limits[0].burst", "routes[0].motive",
		"routes[0].on_store_failure.mode", "routes[1].match[0]",
	}
}
