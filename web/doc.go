// Package web serves the console's pages: routes, forms, sessions at the door
// and the one place where an error becomes an answer. It imports console,
// policy, policy/apikey, usage, views, static and internal/form; it must not
// import db, policy/feed, limiter or gateway, and knows no SQL and no Redis.
package web
