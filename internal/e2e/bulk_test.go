package e2e_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/policy/apikey"
)

// TestBulk_C07_AConsoleKilledInTheMiddleOfAnImportGoesOn kills the console with
// kill -9 while it imports keys. Started again, it goes on by itself, and each
// row is done once; an imported key opens a gateway.
func TestBulk_C07_AConsoleKilledInTheMiddleOfAnImportGoesOn(t *testing.T) {
	t.Parallel()
	const rows = 8_000
	d := StartDemo(t, "--gateways=1")
	tenant := d.Tenants[0]
	secret, kid, err := apikey.Generate(apikey.Test, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("tenant,name,environment,kid,digest\n")
	for i := range rows {
		fmt.Fprintf(&b, "%s,key %d,test,Z%011d,sha256:%064x\n", tenant.ID, i, i, i+1)
	}
	fmt.Fprintf(&b, "%s,the last,test,%s,%s\n", tenant.ID, kid, apikey.Digest(secret.Reveal()))
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, d.Console+"/api/v1/bulk?kind=import-keys&reason=moving+in", strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.APIToken)
	req.Header.Set("Content-Type", "text/csv")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		t.Fatalf("the upload: %d", res.StatusCode)
	}
	list := d.MustAPI(http.StatusOK, http.MethodGet, "/api/v1/bulk", nil)["items"].([]any)
	id := list[0].(map[string]any)["id"].(string)
	job := func() map[string]any { return d.API(http.MethodGet, "/api/v1/bulk/"+id, nil).JSON(t) }
	within := 2 * time.Minute
	eventually(t, within, "the import is checked", func() error {
		if j := job(); j["state"] != "ready" || j["would_do"] != float64(rows+1) {
			return fmt.Errorf("it is %v", j)
		}
		return nil
	})
	d.MustAPI(http.StatusOK, http.MethodPost, "/api/v1/bulk/"+id+"/start", nil)
	eventually(t, within, "some of it is done", func() error {
		if j := job(); j["done"] == 0.0 {
			return fmt.Errorf("it is %v", j)
		}
		return nil
	})
	d.Kill(d.Processes.Console)
	d.Restart(d.Processes.Console)
	eventually(t, within, "the import is done", func() error {
		a := d.API(http.MethodGet, "/api/v1/bulk/"+id, nil)
		if a.Status != http.StatusOK {
			return fmt.Errorf("status %d", a.Status)
		}
		if j := a.JSON(t); j["state"] != "done" {
			return fmt.Errorf("it is %v", j)
		}
		return nil
	})
	if j := job(); j["done"] != float64(rows+1) || j["failed"] != 0.0 || j["would_skip"] != 0.0 {
		t.Errorf("got %v", j)
	}
	eventually(t, within, "an imported key opens the gateway", func() error {
		if a := d.Hit(0, secret.Reveal(), "/v1/items"); a.Status != http.StatusOK {
			return fmt.Errorf("status %d", a.Status)
		}
		return nil
	})
}
