package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

// Every test begins at this moment, so that its outcome is the same on every day: a
// month begins, and no limit or override that is in use has expired.
const beginning = "2026-01-01T00:00:00Z"

const (
	someTenant     = "ten_of_the_test"
	someCredential = "crd_of_the_test"
	someAddress    = "203.0.113.250"
	someHost       = "api.example"
	// lookEvery is after how many requests ctx is looked at.
	lookEvery = 1024
)

// Test runs a suite against a document: one result for each test, in their order. Each
// test has a store of its own, with all buckets full. It fails when the document has
// problems or ctx ends.
func (Engine) Test(ctx context.Context, d *policy.Document, s *scenario.Suite, tenants Tenants) ([]scenario.Result, error) {
	compiled, err := compile(d, "test policy")
	if err != nil {
		return nil, err
	}
	r, err := newRun(compiled, tenants)
	if err != nil {
		return nil, err
	}
	results := make([]scenario.Result, len(s.Tests))
	for i := range s.Tests {
		if results[i], err = r.test(ctx, &s.Tests[i]); err != nil {
			return nil, fmt.Errorf("test %q: %w", s.Tests[i].Name, err)
		}
	}
	return results, nil
}

// run runs tests against one policy, one after the other. All that one leaves behind
// is in the store.
type run struct {
	tenants  Tenants
	clock    clock
	store    *memstore.Store
	replayer *gateway.Replayer
	caller   policy.TenantRecord // of the test under way
	in       gateway.Inbound
	replay   gateway.Replay
	verdict  gateway.Verdict
	places   places
}

func newRun(c *policy.Compiled, tenants Tenants) (*run, error) {
	r := &run{tenants: tenants}
	r.store = memstore.New(r.clock.now)
	var err error
	r.replayer, err = gateway.NewReplayer(gateway.ReplayConfig{
		Compiled: c, Store: r.store, Now: r.clock.now,
		Tenant: func(id string) (policy.TenantRecord, bool) { return r.caller, id == r.caller.ID },
	})
	return r, err
}

// test runs one test.
func (r *run) test(ctx context.Context, t *scenario.Test) (scenario.Result, error) {
	result := scenario.Result{Name: t.Name, Steps: []scenario.StepResult{}}
	var found bool
	if r.caller, found = tenantOf(&t.Given, r.tenants); !found {
		result.Detail = fmt.Sprintf("there is no tenant %q", t.Given.Tenant)
		return result, nil
	}
	began, _ := time.Parse(time.RFC3339, beginning)
	r.clock.micros, r.places = began.UnixMicro(), nil
	r.store.Flush()
	for i := range t.Steps {
		step := &t.Steps[i]
		r.describe(&t.Given, r.caller.ID, step)
		got, first, err := r.step(ctx, step)
		if err != nil {
			return result, err
		}
		result.Steps = append(result.Steps, got)
		if why := judge(step, &got, first); why != "" && result.Detail == "" {
			result.Detail = fmt.Sprintf("step %d (%s): %s", i+1, step.Request, why)
		}
	}
	result.Passed = result.Detail == ""
	return result, nil
}

// tenantOf is who calls; its id is "" for a caller without a key.
func tenantOf(given *scenario.Caller, tenants Tenants) (policy.TenantRecord, bool) {
	switch {
	case given.Tenant != "" && tenants == nil:
		return policy.TenantRecord{}, false
	case given.Tenant != "":
		return tenants(given.Tenant)
	case given.Plan != "":
		return policy.TenantRecord{ID: someTenant, Plan: given.Plan, State: policy.TenantActive}, true
	}
	return policy.TenantRecord{}, true
}

// describe makes the request of a step as a door would tell it.
func (r *run) describe(given *scenario.Caller, tenant string, s *scenario.Step) {
	method, host, path := s.SplitRequest()
	if host == "" {
		host = someHost
	}
	r.replay = gateway.Replay{Credential: someCredential}
	r.in = gateway.Inbound{
		Method: method, Host: host, EscapedPath: path, Header: http.Header{}, ClientKnown: true, Tenant: tenant, Cost: s.Cost,
		User: given.User, UserKnown: true, Hits: 1, Ends: true, Replay: &r.replay,
	}
	address := given.IP
	if address == "" {
		address = someAddress
	}
	r.in.Client, _ = netip.ParseAddr(address) // Parse has looked at it
	for name, value := range s.Headers {
		r.in.Header.Set(name, value)
	}
	fields := s.Body
	if s.Query != "" {
		fields = map[string]string{"query": s.Query}
		if method == http.MethodGet || method == http.MethodHead {
			r.in.Query, fields = url.Values{"query": {s.Query}}.Encode(), nil
		}
	}
	body := &gateway.Body{Whole: true}
	if len(fields) > 0 {
		body.ContentType = "application/json"
		body.Peek, _ = json.Marshal(fields) // texts: it cannot fail
	}
	r.in.Body = body
}

// step sends the requests. first is the verdict on the first one that was refused.
func (r *run) step(ctx context.Context, s *scenario.Step) (got scenario.StepResult, first refusal, err error) {
	start := r.clock.micros + s.After.Microseconds()
	for i := range s.Send {
		if i%lookEvery == 0 && ctx.Err() != nil {
			return got, first, ctx.Err()
		}
		at := start
		if s.Send > 1 {
			at += s.In.Microseconds() / (s.Send - 1) * i
			at += s.In.Microseconds() % (s.Send - 1) * i / (s.Send - 1)
		}
		if err := r.places.until(at, &r.clock, r.replayer); err != nil {
			return got, first, err
		}
		r.clock.micros = at
		in := r.in
		r.replayer.Decide(&in, &r.verdict)
		v := &r.verdict
		if v.Route != nil {
			got.Route = v.Route.Name
		}
		if !v.Allowed {
			if got.Refused++; got.Refused == 1 {
				first = refusalOf(v)
				got.RefusedBy, got.At, got.RetryMillis, got.Reason = first.by, i+1, first.millis, first.reason
			}
			continue
		}
		got.Admitted++
		if err := r.places.take(v.Kept(), at+s.Lasts.Microseconds(), r.replayer); err != nil {
			return got, first, err
		}
	}
	return got, first, nil
}

// refusal is what a verdict says of a request that was not admitted.
type refusal struct {
	by      string // limit, or code
	reason  string
	seconds int64
	millis  int64
}

func refusalOf(v *gateway.Verdict) refusal {
	r := refusal{by: decidedBy(v), reason: string(v.Reason)}
	if r.reason == "" {
		r.reason = string(v.Code)
	}
	r.seconds, r.millis = v.Waits()
	return r
}

// decidedBy is the limit that refused, or the code of what else did.
func decidedBy(v *gateway.Verdict) string {
	if id := v.DecidingLimit(); id != "" {
		return id
	}
	return string(v.Code)
}

// judge says why what came is not what was expected; "" when it is.
func judge(s *scenario.Step, got *scenario.StepResult, first refusal) string {
	e := &s.Expect
	came := fmt.Sprintf("all %d requests were admitted", s.Send)
	if s.Send == 1 {
		came = "the request was admitted"
	}
	if got.At > 0 {
		came = fmt.Sprintf("%s refused request %d", got.RefusedBy, got.At)
	}
	switch {
	case e.Route != "" && got.Route == "":
		return fmt.Sprintf("expected route %s, but no route matched", e.Route)
	case e.Route != "" && got.Route != e.Route:
		return fmt.Sprintf("expected route %s, but the requests met route %s", e.Route, got.Route)
	case e.RefusedBy == "" && got.At > 0:
		return fmt.Sprintf("expected all %d requests to be admitted, but %s", s.Send, came)
	case e.RefusedBy == "":
		return ""
	case e.At > 0 && (got.RefusedBy != e.RefusedBy || got.At != e.At):
		return fmt.Sprintf("expected %s to refuse request %d, but %s", e.RefusedBy, e.At, came)
	case got.RefusedBy != e.RefusedBy:
		return fmt.Sprintf("expected %s to refuse, but %s", e.RefusedBy, came)
	case e.RetryIn > 0 && first.seconds == 0:
		return fmt.Sprintf("expected %s to say that a repeat can pass in %v, but it tells no time", e.RefusedBy, e.RetryIn)
	case e.RetryIn > 0 && first.seconds != int64(e.RetryIn/time.Second):
		return fmt.Sprintf("expected %s to say that a repeat can pass in %v, but it said %v", e.RefusedBy, e.RetryIn, time.Duration(first.seconds)*time.Second)
	}
	return ""
}
