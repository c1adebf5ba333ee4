package console

import (
	"context"
	"time"
)

// goneForGood is since when a replica has to be gone that it is kept what it did not
// tell: one that was only cut off tells it when it is back.
const goneForGood = 30 * time.Minute

// missingOf is the last and the longest stretch of which something is missing: as it
// was noted when batches were counted, or what replicas that are gone did not tell.
func missingOf(runs []KeyUseRun, health Health, now time.Time) (last, longest *UseGap) {
	note := func(gap *UseGap) {
		if gap == nil {
			return
		}
		if last == nil || gap.To.After(last.To) {
			last = gap
		}
		if longest == nil || gap.To.Sub(gap.From) > longest.To.Sub(longest.From) {
			longest = gap
		}
	}
	for i := range runs {
		note(runs[i].Missing)
	}
	for _, r := range untold(runs, health, now) {
		note(r.Missing)
	}
	return last, longest
}

// untold is the runs of replicas that are gone and never told their last, with
// what is missing of them. Those that told nothing at all stand for themselves
// under a name that no run has.
func untold(runs []KeyUseRun, health Health, now time.Time) (out []KeyUseRun) {
	if !health.FleetKnown { // nobody knows who is gone
		return nil
	}
	newest := map[string]KeyUseRun{}
	told := make(map[[2]string]bool, len(runs))
	for _, r := range runs {
		told[[2]string{r.Replica, r.Boot}] = true
		if r.UpdatedAt.After(newest[r.Replica].UpdatedAt) {
			newest[r.Replica] = r
		}
	}
	heard := make(map[string]time.Time, len(health.Replicas)) // until when its heartbeat came
	for _, r := range health.Replicas {
		if heard[r.ID] = now.Add(-r.Age); r.Age <= GoneAfter {
			heard[r.ID] = now
			continue
		}
		silent := KeyUseRun{Replica: r.ID, Boot: neverTold(r.Boot), Seq: 1, Through: heard[r.ID], Final: true, UpdatedAt: now}
		if r.Started.IsZero() || len(runs) == 0 || told[[2]string{r.ID, r.Boot}] || told[[2]string{r.ID, silent.Boot}] {
			continue
		}
		from := later(startedAt(r), now.Add(-keyHoursKept))
		if from.After(heard[r.ID]) {
			from = heard[r.ID]
		}
		silent.Missing = &UseGap{Replica: r.ID, From: from, To: heard[r.ID]}
		out = append(out, silent)
	}
	for name, r := range newest {
		until, known := heard[name]
		if r.Final || known && until.Equal(now) {
			continue
		}
		if until.Before(r.UpdatedAt) {
			until = r.UpdatedAt
		}
		if until.After(r.Through) && (r.Missing == nil || until.After(r.Missing.To)) {
			r.Missing = &UseGap{Replica: name, From: r.Through, To: until}
			out = append(out, r)
		}
	}
	return out
}

// neverTold names the run that stands for one that told nothing.
func neverTold(boot string) string {
	const mark, longest = "~", 64
	return mark + boot[:min(len(boot), longest-len(mark))]
}

// startedAt is when a replica started, by Redis' clock.
func startedAt(r Replica) time.Time {
	return r.Started.Add(-time.Duration(r.ClockOffsetMS) * time.Millisecond).UTC()
}

// noteGone keeps what replicas that are gone for good did not tell, for as long as
// runs are kept: heartbeats are forgotten after an hour.
func noteGone(ctx context.Context, tx Tx, health Health, now time.Time) error {
	if _, err := tx.LockKeyUsePlace(ctx); err != nil {
		return err
	}
	runs, err := tx.KeyUseRunsSince(ctx, now.Add(-keyHoursKept))
	if err != nil {
		return err
	}
	for _, r := range untold(runs, health, now) {
		if len(r.Replica) > 64 || r.Replica == "" || now.Sub(r.Missing.To) < goneForGood {
			continue
		}
		if err := tx.PutKeyUseRun(ctx, r); err != nil {
			return err
		}
	}
	return nil
}
