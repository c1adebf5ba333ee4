// Package schema holds JSON Schemas (draft 2020-12) of the policy document and of
// the test suite beside it, for editors and for CI. They say what a document's
// shape is, not all that validation says: a document that the schema takes may
// still have problems, and one that it refuses always has.
//
// It imports nothing: it is two files.
package schema

import _ "embed"

//go:embed policy.schema.json
var policySchema []byte

//go:embed tests.schema.json
var testsSchema []byte

// Policy is the schema of the policy document, as JSON.
func Policy() []byte { return append([]byte(nil), policySchema...) }

// Tests is the schema of a suite of policy tests, as JSON.
func Tests() []byte { return append([]byte(nil), testsSchema...) }
