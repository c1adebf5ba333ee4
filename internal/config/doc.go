// Package config turns what an operator configured (flags, HEADGATE_*
// variables, a file, secrets in files) into values, and reports everything
// that is wrong with it at once.
//
// It imports nothing of this module and, besides the standard library, only
// the flag parser.
package config
