// Package notify sends mail and signed webhooks to addresses that users typed, and
// never to the deployment's own network unless that is allowed.
//
// It must not import the console: it sends what it is given.
package notify
