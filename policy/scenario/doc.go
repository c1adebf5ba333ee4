// Package scenario holds policy tests: small stories of who asks for what how
// often, and which limit is expected to refuse which request. A suite stands
// beside a policy document, is saved and published with it, and runs against it
// on a virtual clock (package replay does that).
//
// It imports policy and a YAML parser, nothing else: a suite is data.
package scenario
