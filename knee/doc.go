// Package knee finds how much a route can take: it raises the load in steps, within
// bounds, until answers get slow or fail.
//
// It must import nothing of the product: it measures a server from outside.
package knee
