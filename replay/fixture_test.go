package replay_test

import (
	"testing"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
	"github.com/headgate/headgate/replay"
)

const testPolicy = `
apiVersion: headgate/v1
credentials: {headers: [{name: Authorization, scheme: Bearer}]}
user: {header: X-User-Id}
client_ip: {trusted_proxies: [10.0.0.0/8]}
global: {limits: [{name: all, per: global, counts: requests, rate: 50/second, burst: 50, sync: leased}]}
shared: [{name: search, per: tenant, rate: 300/minute, burst: 6}]
plans:
  free:
    limits: [{name: requests, per: tenant, counts: requests, rate: 60/minute, burst: 10}]
    quota: {amount: 30, counts: cost, period: month, alignment: calendar, time_zone: UTC, over: block}
  pro: {limits: [{name: requests, per: tenant, counts: requests, rate: 600/minute, burst: 100}]}
routes:
  - name: login
    match: ["POST /login"]
    identity: ip
    motive: abuse
    limits: [{name: per-account, per: "body:username", rate: 5/minute, burst: 5}, {name: per-ip, per: ip, rate: 20/minute, burst: 20}]
    on_store_failure: {mode: closed}
  - name: report
    match: ["GET /v1/reports/{id}"]
    identity: api_key
    motive: fairness
    cost: 5
    limits: [{name: region, per: "header:X-Region", rate: 100/minute, burst: 100}, {name: key, per: credential, rate: 100/minute, burst: 200}]
    concurrency: {per: tenant, max: 2, lease: 10s}
    on_store_failure: {mode: open, fallback: {rate: 10/minute, burst: 10}}
  - name: search
    match: ["GET api.example/search", "GET other.example/search"]
    identity: api_key
    motive: fairness
    uses: [search]
    on_store_failure: {mode: open, fallback: {rate: 10/minute, burst: 10}}
  - name: graphql
    match: ["POST /graphql"]
    identity: api_key
    motive: fairness
    cost: {graphql: {max: 100, default_list_size: 10, weights: {Query.search: 10}}}
    limits: [{name: points, per: tenant, rate: 5/minute, burst: 100}]
    on_store_failure: {mode: open, fallback: {rate: 10/minute, burst: 10}}
  - name: me
    match: ["GET /me"]
    identity: user
    motive: fairness
    limits: [{name: each, per: user, rate: 3/hour, burst: 3}]
    on_store_failure: {mode: closed}
`

func documentOf(t testing.TB, src string) *policy.Document {
	t.Helper()
	d, report := policy.Parse([]byte(src))
	if !report.OK() {
		t.Fatal(report.Error())
	}
	return d
}

func suiteOf(t testing.TB, src string) *scenario.Suite {
	t.Helper()
	s, report := scenario.Parse([]byte(src))
	if !report.OK() {
		t.Fatal(report.Error())
	}
	return s
}

// knows finds the tenants of a list.
func knows(list ...policy.TenantRecord) replay.Tenants {
	return func(id string) (policy.TenantRecord, bool) {
		for _, r := range list {
			if r.ID == id {
				return r, true
			}
		}
		return policy.TenantRecord{}, false
	}
}
