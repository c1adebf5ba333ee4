package gateway

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/usage"
)

// RefusedReporter is a Reporter that also carries whom limits refused; *feed.Reporter is
// one.
type RefusedReporter interface {
	// SendRefused tells a report, as usage.EncodeRefused wrote it, in place of the last.
	SendRefused(ctx context.Context, replica string, body []byte) error
}

const (
	// refusedEvery is how often it is told who is refused.
	refusedEvery = 2 * time.Second
	// invalidLimitID names the limit on refused credentials, which no policy names.
	invalidLimitID = "credentials.invalid"
)

// newRefused is nil where nobody would carry it.
func newRefused(cfg *Config) *usage.RefusedCounter {
	if _, carries := cfg.Reporter.(RefusedReporter); !carries {
		return nil
	}
	return usage.NewRefusedCounter(cfg.Identity.ID, cfg.Identity.Boot)
}

// leaseName names a new lease, so that people can tell whose it is and since when.
func (g *Gateway) leaseName(nowMicros int64) string {
	return limiter.LeaseName(g.leaseTag, nowMicros/1_000_000, rand.Text())
}

// countRefused counts whom a limit refused. What was decided without the store concerns
// no limit of anybody's.
func (g *Gateway) countRefused(in *Inbound, v *Verdict, now time.Time) {
	if g.refused == nil || v.Allowed || v.Degraded || v.Aborted || in.Peek || in.Replay != nil {
		return
	}
	at := g.redisTime(now).UnixMicro()
	r := usage.Refused{Route: v.routeName()}
	switch {
	case v.Code == CodeTooManyInvalid:
		row := limiter.Row{Kind: limiter.RowIP, Subject: v.Subject}
		r.Part, r.Row, r.Cost, r.Until = "credentials", refusedRow(&row), 1, at+v.RetryAfterSecs*1_000_000
		g.refused.Add(invalidLimitID, &r, at)
	case v.Outcome != usage.OutcomeLimited && v.Outcome != usage.OutcomeBlocked:
	case v.drawn != nil && v.Deciding >= 0 && v.Deciding < len(v.Limits):
		s := &v.Limits[v.Deciding]
		if v.RetryAfterMicros > 0 {
			r.Until = at + v.RetryAfterMicros
		}
		if r.Cost, r.Overflow, r.Blocked = s.Cost, s.Overflow, s.Blocked; v.drawn.refusedBy(s, &r) {
			g.refused.Add(s.ID, &r, at)
		}
	}
}

// refusedBy fills in what the draw says of a limit that refused; false when it has no
// such part.
func (d *drawing) refusedBy(s *LimitState, r *usage.Refused) bool {
	for i := range d.draw.Charges {
		if c := &d.draw.Charges[i]; s.Kind == LimitRate && c.LimitID == s.ID && !c.Shadow {
			r.Part, r.Row, r.Numbers = "rate", refusedRow(&c.Row), [3]int64{c.Numbers.Tokens, c.Numbers.Period, c.Numbers.Burst}
			return true
		}
	}
	for i := range d.draw.Slots {
		if p := &d.draw.Slots[i]; s.Kind == LimitConcurrency && p.LimitID == s.ID && !p.Shadow {
			r.Part, r.Row, r.Most, r.Until = "concurrency", refusedRow(&p.Row), p.Max, 0
			return true
		}
	}
	for i := range d.draw.Quotas {
		if q := &d.draw.Quotas[i]; s.Kind == LimitQuota && q.LimitID == s.ID && !q.Shadow {
			r.Part, r.Row, r.Most, r.Start, r.End, r.Until = "quota", refusedRow(&q.Row), q.Cap(), q.Start, q.End, q.End
			return true
		}
	}
	return false
}

func refusedRow(row *limiter.Row) usage.RefusedRow {
	return usage.RefusedRow{Kind: kindName(row.Kind), Tenant: row.Tenant, Subject: usage.RawBytes(row.Subject)}
}

// kindName is the kind of a row as a report names it.
func kindName(kind limiter.RowKind) string {
	switch kind {
	case limiter.RowGlobal:
		return "g"
	case limiter.RowTenant:
		return "t"
	case limiter.RowCredential:
		return "c"
	case limiter.RowIP:
		return "i"
	default:
		return "d"
	}
}

// forgetGroup forgets the refused credentials of the addresses of a group, as
// limiter.ForgetGroup does.
func (l *invalidLimit) forgetGroup(group int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for subject := range l.entries {
		if group < 0 || limiter.DenyGroup(&limiter.Row{Kind: limiter.RowIP, Subject: subject}) == group {
			delete(l.entries, subject)
		}
	}
}

// refusedLoop tells who is refused, every two seconds while somebody is.
func (g *Gateway) refusedLoop(ctx context.Context) error {
	if g.refused == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	ticker := time.NewTicker(refusedEvery)
	defer ticker.Stop()
	told := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		report := g.refused.Report(g.redisTime(g.cfg.Now()).UnixMicro())
		if len(report.Limits) == 0 && !told {
			continue
		}
		body, err := usage.EncodeRefused(&report)
		if err != nil {
			g.cfg.Log.Error("refused subjects cannot be told", "error", err.Error())
			continue
		}
		send, cancel := context.WithTimeout(ctx, reportTimeout)
		err = g.cfg.Reporter.(RefusedReporter).SendRefused(send, g.cfg.Identity.ID, body)
		cancel()
		told = err != nil || len(report.Limits) > 0
	}
}
