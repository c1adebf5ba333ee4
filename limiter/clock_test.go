package limiter_test

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

// manual is a clock that stands still between calls of Advance.
type manual struct{ micros atomic.Int64 }

func newManual() *manual {
	m := &manual{}
	m.micros.Store(time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC).UnixMicro())
	return m
}

func (m *manual) Now() int64              { return m.micros.Load() }
func (m *manual) Time() time.Time         { return time.UnixMicro(m.Now()) }
func (m *manual) Advance(d time.Duration) { m.micros.Add(d.Microseconds()) }

func tenant(id string) limiter.Row { return limiter.Row{Kind: limiter.RowTenant, Tenant: id} }

// charge is one limit of a request.
func charge(row limiter.Row, limit string, n policy.Numbers, cost int64) limiter.Charge {
	return limiter.Charge{Row: row, LimitID: limit, Hash: policy.LimitHash(limit), Numbers: n, Cost: cost}
}
