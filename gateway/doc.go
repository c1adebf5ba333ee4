// Package gateway is one replica of the data plane: it finds out who is calling
// (API key, client address), which route of the policy is meant, asks the
// limiter once, and answers at one of its doors: a reverse proxy, forward
// authentication and JSON decisions. All doors go through one function
// (Gateway.decide) and only translate, so the same request gets the same answer
// at each of them.
//
// It must not import the control plane (console, db, web, views), PostgreSQL
// drivers or templates: a gateway works while all of those are away. It opens
// no connections to Redis itself; policy/feed and limiter/redisstore do.
package gateway
