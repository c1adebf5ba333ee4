// Package scale fills a database with as many tenants and keys as a large
// customer has, and tells what each statement of a page read to answer. Its
// tests hold lists, searches and the relay to that; `make scale` runs them at
// full size.
//
// Only tests use it. It knows tables, not their meaning, and must not import
// any other package of this module.
package scale
