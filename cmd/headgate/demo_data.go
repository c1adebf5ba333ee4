package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// demoPolicy is the sample policy, as an operator would write it.
//
//go:embed demo_policy.yaml
var demoPolicy string

// demoTenant is a sample tenant with a key.
type demoTenant struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Plan    string `json:"plan"`
	Key     string `json:"key"`
	Traffic bool   `json:"traffic"` // the sample traffic uses this key
}

// sampleTenants are made in this order; the quiet ones, which the traffic never
// touches, come first.
func sampleTenants(traffic bool) []demoTenant {
	return []demoTenant{
		{Name: "Elm Street Books", Plan: "free"},
		{Name: "Fjord Mobile", Plan: "pro"},
		{Name: "Granite Labs", Plan: "free"},
		{Name: "Harvest Foods", Plan: "pro"},
		{Name: "Northwind Tools", Plan: "pro", Traffic: traffic},
		{Name: "Acorn Analytics", Plan: "free", Traffic: traffic},
		{Name: "Blue Harbor Freight", Plan: "pro", Traffic: traffic},
		{Name: "Cobalt Payments", Plan: "pro", Traffic: traffic},
		{Name: "Dune & Partners", Plan: "free", Traffic: traffic},
	}
}

func (d *demo) api() *apiClient {
	return &apiClient{base: httpURL(d.ports.console), token: d.apiToken, http: &http.Client{Timeout: 40 * time.Second}}
}

// waitConsole returns when the JSON API answers.
func (d *demo) waitConsole(ctx context.Context) error {
	return d.waitPart(ctx, "console", func() error {
		return d.api().do(ctx, http.MethodGet, "/api/v1/gateways", nil, nil)
	})
}

// waitGateways returns when every gateway says that it is ready.
func (d *demo) waitGateways(ctx context.Context) error {
	for i, port := range d.ports.admin {
		err := d.waitPart(ctx, fmt.Sprintf("gateway-%d", i+1), func() error {
			return (&apiClient{base: httpURL(port), http: http.DefaultClient}).do(ctx, http.MethodGet, "/readyz", nil, nil)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// waitPart asks until there is no error, the part has ended, or ctx is done.
func (d *demo) waitPart(ctx context.Context, name string, ask func() error) error {
	var proc <-chan struct{}
	for _, p := range d.parts {
		if p.name == name {
			proc = p.proc.Done()
		}
	}
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-proc:
			return fmt.Errorf("%s has ended: %s; see %s", name, lastLine(d.dir.log(name)), d.dir.log(name))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", name, err)
		case <-tick.C:
		}
	}
}

// publishPolicy publishes the sample policy as version 1 and waits for the gateways.
func (d *demo) publishPolicy(ctx context.Context) error {
	body := map[string]any{"document": demoPolicy, "base_version": 0, "note": "Sample policy of the demo"}
	return d.api().do(ctx, http.MethodPost, "/api/v1/policy/publish?wait=converged&timeout=20s", body, nil)
}

// makeTenants makes the sample tenants, each with a key.
func (d *demo) makeTenants(ctx context.Context) error {
	for _, t := range sampleTenants(d.opts.Traffic) {
		var made struct {
			ID string `json:"id"`
		}
		if err := d.api().do(ctx, http.MethodPost, "/api/v1/tenants", map[string]any{"name": t.Name, "plan": t.Plan}, &made); err != nil {
			return err
		}
		var issued struct {
			Key string `json:"key"`
		}
		credential := map[string]any{"name": "server", "environment": "live"}
		if err := d.api().do(ctx, http.MethodPost, "/api/v1/tenants/"+made.ID+"/credentials", credential, &issued); err != nil {
			return err
		}
		t.ID, t.Key = made.ID, issued.Key
		d.tenants = append(d.tenants, t)
	}
	return nil
}

// startTraffic starts the process that plays the sample tenants.
func (d *demo) startTraffic(context.Context) error {
	if !d.opts.Traffic {
		return nil
	}
	var busy []trafficTenant
	for _, t := range d.tenants {
		if t.Traffic {
			busy = append(busy, trafficTenant{Name: t.Name, Key: t.Key})
		}
	}
	b, err := json.Marshal(trafficPlan{Gateways: httpURLs(d.ports.proxy), Tenants: busy})
	if err != nil {
		return fmt.Errorf("encode traffic plan: %w", err)
	}
	file, err := d.dir.writeSecret("traffic.json", string(b))
	if err != nil {
		return err
	}
	return d.start("traffic", "traffic", "--plan-file="+file)
}
