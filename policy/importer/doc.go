// Package importer reads what other programs know of an API's limits and routes:
// the configuration of envoyproxy/ratelimit, and OpenAPI documents. It guesses
// nothing: what a policy needs and the source does not say becomes a Note, and
// where a document would otherwise be wrong, a placeholder that validation
// refuses until somebody decides.
//
// It imports policy, a YAML parser and an OpenAPI parser, nothing else: no file
// and no address that a source names is ever opened.
package importer
