package console

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// finding is something that is so.
type finding struct {
	object, name string
	value        int64
	words        string
}

// cachedFacts are what a rule's question was answered with.
type cachedFacts struct {
	at, changed time.Time
	list        []finding
	known       bool
}

const (
	// fewRequests is too little traffic to speak of a share of it.
	fewRequests = 50
	maxFindings = 1000
	// liveLag is how old live counts are before they are complete.
	liveLag = 5 * time.Second
)

// askEvery is how long an answer is good for.
func (k AlertKind) askEvery() time.Duration {
	switch k {
	case AlertQuotaUsed, AlertMarkQuota:
		return 5 * time.Second
	case AlertForecast:
		return 5 * time.Minute
	case AlertKeyExpiring:
		return 30 * time.Second
	case AlertKeyRevoked, AlertLedgerGap:
		return 10 * time.Second
	}
	return 0
}

// facts answers what a rule or mark asks for; known is false when nobody knows now.
func (s *Alerts) facts(ctx context.Context, w alertWatch, now time.Time) (list []finding, known bool) {
	if c, ok := s.found[w.id]; ok && c.changed.Equal(w.changed) && now.Sub(c.at) < w.kind.askEvery() {
		return c.list, c.known
	}
	list, known, err := s.ask(ctx, w, now)
	if err != nil {
		s.d.Log.WarnContext(ctx, "what an alert asks for is unknown", "kind", string(w.kind), "error", err)
		known = false
	}
	if len(list) > maxFindings {
		list = list[:maxFindings]
	}
	s.found[w.id] = cachedFacts{at: now, changed: w.changed, list: list, known: known}
	return list, known
}

func (s *Alerts) ask(ctx context.Context, w alertWatch, now time.Time) ([]finding, bool, error) {
	switch w.kind {
	case AlertQuotaUsed, AlertMarkQuota:
		return s.askQuotas(ctx, w, now)
	case AlertForecast:
		return s.askForecast(ctx, w, now)
	case AlertRefused, AlertMarkRefused, AlertMarkRequests:
		list, known := s.askTraffic(w, now)
		return list, known, nil
	case AlertKeyExpiring:
		return s.askExpiring(ctx, w, now)
	case AlertKeyRevoked:
		return s.askRevoked(ctx, w, now)
	case AlertAuditBroken:
		list, known := s.askTrail()
		return list, known, nil
	case AlertLedgerGap:
		return s.askLedger(ctx, now)
	}
	list, known := askFleet(w, s.c.Fleet.Health(ctx))
	return list, known, nil
}

// askFleet answers from heartbeats and from what was seen of Redis.
func askFleet(w alertWatch, h Health) ([]finding, bool) {
	if w.kind == AlertNoTTL {
		return hazardFindings(h), h.RedisUp && !h.HazardsAt.IsZero()
	}
	var out []finding
	for _, r := range h.Replicas {
		if f, so := replicaFinding(w, r, h); so {
			f.object, f.name = r.ID, r.ID+" on "+r.Host
			out = append(out, f)
		}
	}
	return out, h.FleetKnown
}

func replicaFinding(w alertWatch, r Replica, h Health) (finding, bool) {
	heard := r.Age <= SilentAfter
	switch w.kind {
	case AlertStalled:
		age := int64(r.Age / time.Second)
		return finding{value: age, words: fmt.Sprintf("Nothing was heard from gateway %s for more than %d seconds.", r.ID, w.threshold)}, age >= w.threshold
	case AlertNACK:
		if r.NACK == nil || !heard {
			return finding{}, false
		}
		return finding{value: h.Version, words: fmt.Sprintf("Gateway %s refuses v%d (%s) and keeps v%d.", r.ID, r.NACK.Version, r.NACK.Code, r.Version)}, true
	case AlertDegraded:
		words := fmt.Sprintf("Gateway %s has decided without Redis for more than %d seconds.", r.ID, w.threshold)
		return finding{value: w.threshold, words: words}, heard && r.Mode == policy.ModeDegraded
	case AlertSpoolFull:
		if r.Usage == nil || r.Usage.SpoolLimit <= 0 {
			return finding{}, false
		}
		used := r.Usage.SpoolBytes * 100 / r.Usage.SpoolLimit
		if r.Usage.Full {
			return finding{value: used, words: fmt.Sprintf("The spool of gateway %s is full: what routes do then is in force, and %d requests went without a note.", r.ID, r.Usage.Unnoted)}, true
		}
		return finding{value: used, words: fmt.Sprintf("The spool of gateway %s holds %d %% of what it may.", r.ID, used)}, used >= w.threshold
	}
	return finding{}, false
}

func hazardFindings(h Health) []finding {
	var out []finding
	for _, z := range h.Hazards {
		if z.Code == policy.HazardNoTTL {
			out = append(out, finding{object: z.Server, name: z.Server, value: 1, words: z.Text})
		}
	}
	return out
}

// sumOf adds points up; told is false when no replica said anything.
func sumOf(points []usage.Point) (decided, refused int64, told bool) {
	for _, p := range points {
		decided += p.Admitted + p.Refused
		refused += p.Refused
		told = told || p.Reported
	}
	return decided, refused, told
}

// askTraffic answers from live counts of the last minute.
func (s *Alerts) askTraffic(w alertWatch, now time.Time) ([]finding, bool) {
	if s.c.Live == nil {
		return nil, false
	}
	to := now.Add(-liveLag)
	from := to.Add(-time.Minute)
	if w.tenantID != "" {
		decided, refused, _ := sumOf(s.c.Live.TenantSeries(w.tenantID, from, to, liveLag))
		_, _, told := sumOf(s.c.Live.Totals(from, to, liveLag))
		return markFindings(w, decided, refused), told
	}
	decided, refused, told := sumOf(s.c.Live.Totals(from, to, time.Second))
	before, beforeRefused, _ := sumOf(s.c.Live.Totals(now.Add(-time.Hour), from, time.Minute))
	if decided < fewRequests || before < fewRequests {
		return nil, told
	}
	share, usual := 100*refused/decided, 100*beforeRefused/before
	if share-usual < w.threshold {
		return nil, told
	}
	words := fmt.Sprintf("%d %% of the last minute's requests were refused; in the hour before it were %d %%.", share, usual)
	return []finding{{object: "all", name: "All traffic", value: share - usual, words: words}}, told
}

// markFindings is what a tenant's own mark says of its last minute.
func markFindings(w alertWatch, decided, refused int64) []finding {
	f := finding{object: w.tenantID, name: "Your traffic"}
	switch {
	case w.kind == AlertMarkRequests && decided >= w.threshold:
		f.value, f.words = decided, fmt.Sprintf("%d requests in a minute; your mark is %d.", decided, w.threshold)
	case w.kind == AlertMarkRefused && decided > 0 && 100*refused >= w.threshold*decided:
		f.value = 100 * refused / decided
		f.words = fmt.Sprintf("%d %% of a minute's requests were refused; your mark is %d %%.", f.value, w.threshold)
	default:
		return nil
	}
	return []finding{f}
}

// askExpiring answers from the keys' own ends. A key that a rotation retires is not
// meant: its end is wanted.
func (s *Alerts) askExpiring(ctx context.Context, w alertWatch, now time.Time) (out []finding, known bool, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		keys, err := tx.ShownKeys(ctx, KeyQuery{Show: ShowExpiring}, now, Cursor{}, maxFindings)
		for _, k := range keys {
			if k.NotAfter == nil || k.State == policy.KeyRetiring || k.NotAfter.Sub(now) > time.Duration(w.threshold)*24*time.Hour {
				continue
			}
			words := fmt.Sprintf("Key %s (%s of %s) expires on %s UTC.", k.KID, k.CredentialName, k.TenantName, k.NotAfter.UTC().Format("2 Jan 2006 15:04"))
			out = append(out, finding{object: k.KID, name: k.CredentialName + " of " + k.TenantName, value: int64(k.NotAfter.Sub(now) / (24 * time.Hour)), words: words})
		}
		return err
	})
	return out, err == nil, err
}

// askRevoked answers from the audit trail, where each use of a revoked key is told
// once an hour.
func (s *Alerts) askRevoked(ctx context.Context, w alertWatch, now time.Time) (out []finding, known bool, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		events, err := tx.AuditEvents(ctx, AuditQuery{Action: "key.used-revoked"}, 0, 200)
		if err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, e := range events {
			if now.Sub(e.At) > time.Duration(w.threshold)*time.Minute || seen[e.ObjectID] {
				continue
			}
			seen[e.ObjectID] = true
			var v keyAlarmView
			_ = json.Unmarshal(e.After, &v) // what cannot be read is left out of the words
			out = append(out, finding{object: e.ObjectID, name: e.ObjectID, value: 1, words: fmt.Sprintf("Key %s was used although it is revoked, from %s.", e.ObjectID, v.Network)})
		}
		return nil
	})
	return out, err == nil, err
}
