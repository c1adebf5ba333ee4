// Package migrations embeds the database's schema as numbered SQL files. It
// imports nothing of this module.
package migrations

import "embed"

// FS holds the migrations, named <number>_<what>.sql.
//
//go:embed *.sql
var FS embed.FS
