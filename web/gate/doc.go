// Package gate is the console's door for gateways that cannot reach Redis: it
// gives out the signed policy and takes heartbeats. It knows a token, and neither
// sessions nor pages.
//
// It may import console, internal/problem and policy of this module. It must not import db,
// policy/feed, views or the rest of web.
package gate
