// Package notify sends mail and signed webhooks to addresses that users typed, and
// never to the deployment's own network unless that is allowed.
//
// Webhooks are signed as Standard Webhooks says. Where they go is decided on the
// address that a connection is about to be made to, after names were resolved.
// What a sender is told of a failure does not tell an open port from a closed one.
//
// It must not import the console: it sends what it is given.
package notify
