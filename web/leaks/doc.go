// Package leaks is the console's door for partners that scan others' texts for
// secrets and report what they find, signed: GitHub's secret scanning partner
// program. It knows signatures, and neither sessions nor pages.
//
// It may import console and internal/problem of this module. It must not import db, policy/feed,
// views or the rest of web.
package leaks
