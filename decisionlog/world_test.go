package decisionlog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/decisionlog"
)

var t0 = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

type ctx = context.Context

// batches is a Log of batches as they stand.
type batches []*decisionlog.Batch

func (l batches) Batches(_ context.Context, yield func(*decisionlog.Batch) error) error {
	for _, b := range l {
		if err := yield(b); err != nil {
			return err
		}
	}
	return nil
}

func (l batches) Bounds() (from, to time.Time, entries int64) { return t0, t0, 0 }

// anyEntry is an entry as strange as the format allows.
func anyEntry(t *rapid.T) decisionlog.Entry {
	text := func(name string) string {
		return rapid.SampledFrom([]string{"", "a", "ten_abcdefghijklmnop", "/v1/ü/…", "\x00\xff", name}).Draw(t, name)
	}
	e := decisionlog.Entry{
		Kind: rapid.SampledFrom([]decisionlog.Kind{decisionlog.KindDecision, decisionlog.KindEnd, decisionlog.KindSettle}).Draw(t, "kind"),
		At:   t0.UnixMicro() + rapid.Int64Range(0, 5_000_000).Draw(t, "at"), Order: rapid.Int32().Draw(t, "order"), Seq: rapid.Int64().Draw(t, "seq"),
		Ref:    rapid.Uint64().Draw(t, "ref"),
		Tenant: text("tenant"), Credential: text("credential"), User: text("user"), IP: text("ip"), Method: text("method"), Host: text("host"),
		Path: text("path"), Route: text("route"), Policy: rapid.Int64Min(0).Draw(t, "policy"), Cost: rapid.Int64Min(0).Draw(t, "cost"),
		Hits: rapid.Int64Min(0).Draw(t, "hits"), Reason: text("reason"), Limit: text("limit"), Wait: rapid.Int64().Draw(t, "wait"),
	}
	for _, flag := range []*bool{&e.ByUser, &e.Priced, &e.Renewed, &e.Allowed, &e.Degraded, &e.Cached, &e.Leased} {
		*flag = rapid.Bool().Draw(t, "flag")
	}
	if rapid.Bool().Draw(t, "values") {
		e.Values = rapid.MapOfN(rapid.StringN(1, 9, 20), rapid.StringN(0, 9, 20), 1, 4).Draw(t, "values")
	}
	return e
}

// traffic is a batch as a busy replica logs it: 1 000 tenants, some much busier than
// others, 20 routes some of which have ids in their paths, 5 % refused.
func traffic(seed uint64, entries int) *decisionlog.Batch {
	rnd := rand.New(rand.NewPCG(seed, 1))
	b := &decisionlog.Batch{Replica: "gw_a", Boot: "boot", Seq: int64(seed) + 1, From: t0.UnixMicro(), Sample: decisionlog.Whole}
	ids := make([][2]string, 1000)
	names := rand.New(rand.NewPCG(7, 7))
	for i := range ids {
		ids[i] = [2]string{fmt.Sprintf("ten_%013x", names.Uint64()>>12), fmt.Sprintf("crd_%013x", names.Uint64()>>12)}
	}
	at := b.From
	for i := range entries {
		at += rnd.Int64N(1000)
		tenant := int(float64(len(ids)) * rnd.Float64() * rnd.Float64())
		route := rnd.IntN(20)
		path := fmt.Sprintf("/v1/things%d", route)
		if route < 5 {
			path += fmt.Sprintf("/%d", rnd.IntN(10_000))
		}
		e := decisionlog.Entry{
			Kind: decisionlog.KindDecision, At: at, Order: int32(rnd.IntN(3)), Seq: int64(i + 1), Tenant: ids[tenant][0], Credential: ids[tenant][1],
			IP: fmt.Sprintf("203.0.%d.%d", tenant/256, tenant%256), Method: "GET", Host: "api.example.com", Path: path, Route: fmt.Sprintf("route-%d", route),
			Policy: 42, Cost: int64(1 + route%3), Hits: 1, Allowed: true, Reason: "admitted",
		}
		if rnd.IntN(20) == 0 {
			e.Allowed, e.Reason, e.Limit, e.Wait = false, "limit", "plan.requests", rnd.Int64N(1_000_000)
		}
		b.Entries = append(b.Entries, e)
	}
	b.To = at
	return b
}
