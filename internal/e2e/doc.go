// Package e2e tests the whole product as its users meet it: real processes,
// started by `headgate demo`, asked through their own ports, killed and started
// again. It has only tests, and nothing imports it.
package e2e
