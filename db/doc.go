// Package db is console.Store on PostgreSQL through pgx and the queries that
// sqlc generated into db/gen (which this package alone imports). It knows
// SQLSTATEs, rows and transactions, and turns them into console's words.
//
// It imports console, policy, migrations and db/gen, and must not import
// web, views, gateway or anything that speaks HTTP or Redis.
package db
