// Package testkit gives tests what they run against: a fresh PostgreSQL
// database, a Redis server of their own, a browser. All of them are real; a
// test fails when one is missing and is never skipped.
//
// Only tests may import it. It imports internal/child, internal/pglocal and
// internal/redislocal and nothing else of this module, so that every package's
// own tests can use it.
package testkit
