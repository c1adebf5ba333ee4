// Package used turns reports of the ledger into what pages draw: bars, heat maps,
// words. The console's pages and tenants' own pages show the same by it.
//
// It imports console and views/ui; it must not import web, net/http or db.
package used
