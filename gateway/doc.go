// Package gateway is one replica of the data plane: it finds out who is calling
// (API key, user, client address), which route of the policy is meant and what
// the request costs, asks the limiter once for everything that it draws from, and
// answers at one of its doors: a reverse proxy, forward authentication, JSON
// decisions, and doors of other packages (Door). All of them go through one
// function (Gateway.decide) and only translate, so the same request gets the same
// answer at each of them.
//
// It must not import the control plane (console, db, web, views), PostgreSQL
// drivers or templates: a gateway works while all of those are away. It opens
// no connections to Redis itself; policy/feed and limiter/redisstore do.
package gateway
