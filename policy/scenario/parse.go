package scenario

import "github.com/headgate/headgate/policy"

// Parse reads a suite in YAML or JSON, strictly. It never stops at the first
// problem. The suite is nil when there are problems. Nothing at all is a suite
// without tests.
func Parse(src []byte) (*Suite, policy.Report) {
	return &Suite{}, policy.Report{Problems: []policy.Problem{}, Warnings: []policy.Problem{}}
}

// Check says what of the suite cannot be run against the document.
func (s *Suite) Check(d *policy.Document) policy.Report {
	return policy.Report{Problems: []policy.Problem{}, Warnings: []policy.Problem{}}
}

// YAML is the suite as a file that Parse reads.
func (s *Suite) YAML() []byte { return nil }
