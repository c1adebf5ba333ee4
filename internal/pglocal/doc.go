// Package pglocal runs a private PostgreSQL cluster as a child process: the
// demo's database and the database of the tests. It listens on a Unix socket in
// a folder that only its owner (and root) can enter, and on nothing else.
//
// It imports internal/child and nothing else of this module. Neither plane may
// import it.
package pglocal
