package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// hammer asks again and again with a tenant's key until stop is called.
func (d *Demo) hammer(key string) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-time.After(40 * time.Millisecond):
				d.Hit(i%len(d.Gateways), key, "/v1/items")
			}
		}
	})
	return sync.OnceFunc(func() { close(done); wg.Wait() })
}

// refusedBy waits until the tenant is over its limit, and gives the body of a refusal.
func (d *Demo) refusedBy(t *testing.T, key string) map[string]any {
	t.Helper()
	var body map[string]any
	eventually(t, 30*time.Second, "the tenant is over its limit", func() error {
		for i := range 90 {
			if a := d.Hit(i%len(d.Gateways), key, "/v1/items"); a.Status == http.StatusTooManyRequests {
				body = a.JSON(t)
				return nil
			}
		}
		return fmt.Errorf("never refused")
	})
	return body
}

// The support call of CONSOLE: the search, the tenant, the explanation, the boost,
// and admitted again, with the propagation to all gateways.
func TestExplain_TheSupportCallTakesLessThanFifteenSeconds(t *testing.T) {
	t.Parallel()
	d := StartDemo(t)
	tenant, _ := d.NewTenant("Quince Orchards", "free")
	body := d.refusedBy(t, tenant.Key)
	p := OpenBrowser(t, d)
	p.SignIn(d)
	stop := d.hammer(tenant.Key)
	defer stop()
	begun := time.Now()
	p.Becomes(`(() => { document.dispatchEvent(new KeyboardEvent('keydown', {key: 'k', ctrlKey: true, bubbles: true})); return document.activeElement.id === 'find' })()`)
	p.Becomes(`(() => { const f = document.getElementById('find');
		if (f.value !== 'quince') { f.value = 'quince'; f.dispatchEvent(new Event('input', {bubbles: true})) }
		return !!document.querySelector('#found a[href^="/explain"]') })()`)
	p.Submit(`#found a[href^="/explain"]`)
	sentence := p.Text("[data-sentence]")
	if !strings.Contains(sentence, "Quince Orchards is refused") || !strings.Contains(sentence, "plan free") {
		t.Errorf("the sentence is %q", sentence)
	}
	p.Fill(map[string]string{"reason": "support call"})
	p.Submit(".explain-acts button")
	if !strings.Contains(p.Path(), "/explain") {
		t.Errorf("the boost leads to %s", p.Path())
	}
	// Now and then one is admitted without a boost too, by what flows back: only the numbers
	// tell that a gateway knows of it.
	for i := range d.Gateways {
		eventually(t, 15*time.Second, "the tenant is admitted by twice its limit", func() error {
			a := d.Hit(i, tenant.Key, "/v1/items")
			if told := a.Header.Get("RateLimit-Policy"); a.Status >= 400 || !strings.Contains(told, `"plan.requests";q=120;w=60`) {
				return fmt.Errorf("gateway %d: status %d by %s", i, a.Status, told)
			}
			return nil
		})
	}
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("the call took %v", took)
	}
	t.Logf("the call took %v", time.Since(begun).Round(time.Millisecond))
	stop()
	d.checkReceipt(t, tenant, body)
}

// checkReceipt explains the receipt of a refusal, whole and changed.
func (d *Demo) checkReceipt(t *testing.T, tenant Tenant, body map[string]any) {
	t.Helper()
	receipt, _ := body["receipt"].(string)
	if len(receipt) == 0 || len(receipt) > 200 {
		t.Fatalf("the refusal's receipt is %q", receipt)
	}
	e := d.MustAPI(http.StatusOK, "GET", "/api/v1/explain?receipt="+url.QueryEscape(receipt), nil)
	r, _ := e["receipt"].(map[string]any)
	if r["valid"] != true || r["agrees"] != true || r["limit"] != "plan.requests" || r["tenant_id"] != tenant.ID {
		t.Errorf("the receipt says %v", r)
	}
	changed := strings.Map(func(c rune) rune {
		if c == 'A' {
			return 'B'
		}
		return c
	}, receipt)
	e = d.MustAPI(http.StatusOK, "GET", "/api/v1/explain?receipt="+url.QueryEscape(changed), nil)
	if r, _ := e["receipt"].(map[string]any); r["valid"] != false {
		t.Errorf("a changed receipt says %v", r)
	}
}

func TestExplain_WithRedisAwayItSaysWhatHoldsInstead(t *testing.T) {
	t.Parallel()
	d := StartDemo(t)
	tenant, _ := d.NewTenant("Quince Orchards", "free")
	ask := func(more string) map[string]any {
		return d.MustAPI(http.StatusOK, "GET", "/api/v1/explain?tenant="+tenant.ID+more, nil)
	}
	eventually(t, 20*time.Second, "the tenant is admitted", func() error {
		if e := ask(""); e["outcome"] != "admitted" {
			return fmt.Errorf("%v", e["sentence"])
		}
		return nil
	})
	d.Kill(d.Processes.Redis)
	eventually(t, 20*time.Second, "Redis is said to be away", func() error {
		if e := ask("&route=payments"); e["outcome"] != "refused" || e["whose"] != "ours" || !strings.Contains(e["sentence"].(string), "503") {
			return fmt.Errorf("%v: %v", e["outcome"], e["sentence"])
		}
		return nil
	})
	// Of all routes the closed one is told first where it has refused already.
	if e := ask(""); (e["outcome"] != "unknown" || !strings.Contains(e["sentence"].(string), "fallback")) &&
		(e["outcome"] != "refused" || !strings.Contains(e["sentence"].(string), "The route is closed")) {
		t.Errorf("%v: %v", e["outcome"], e["sentence"])
	}
	d.Restart(d.Processes.Redis)
	eventually(t, 30*time.Second, "Redis is back", func() error {
		if e := ask("&route=payments"); e["outcome"] != "admitted" {
			return fmt.Errorf("%v: %v", e["outcome"], e["sentence"])
		}
		return nil
	})
}
