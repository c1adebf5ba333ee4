package console_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

// byRisk lists rotations page by page.
func byRisk(t *testing.T, s *console.Rotations, q console.RotationQuery, limit int) (ids []string, shown map[string]console.RotationShown) {
	t.Helper()
	shown = map[string]console.RotationShown{}
	q.Page = console.Page{Limit: limit}
	for {
		items, next, err := s.ListByRisk(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range items {
			ids = append(ids, r.ID)
			shown[r.ID] = r.Shown
		}
		if next == "" {
			return ids, shown
		}
		q.Page.After = next
	}
}

// fleetOfRotations is one rotation of each kind, by its name.
func fleetOfRotations(t *testing.T) (w *watched, of map[string]string) {
	t.Helper()
	w = newWatched(t, 30*dayLong)
	of = map[string]string{"fresh": w.started.Rotation.ID}
	ten := w.started.Rotation.TenantID
	start := func(name string, overlap time.Duration) console.Started {
		issued := w.issue(t, ten)
		s := w.rotate(t, issued.Credential.ID, overlap)
		of[name] = s.Rotation.ID
		return s
	}
	overdue, later, quiet := start("overdue", 2*dayLong), start("overdue later", 2*dayLong+time.Hour), start("quiet", 2*dayLong+time.Minute)
	start("ended", dayLong)
	start("cancelled", dayLong)
	if _, err := w.rotations.Cancel(w.ctx, owner, of["cancelled"], "r"); err != nil {
		t.Fatal(err)
	}
	w.wait(30 * time.Hour)
	for _, s := range []console.Started{overdue, later} {
		old := w.key(t, s.Rotation.OldKID)
		w.used(t, old, w.clock.now().Add(-time.Minute))
		w.use.see(old.KID, network(1), "x", w.clock.now().Add(-time.Minute))
	}
	// The quiet one was used when it began, by a job that comes each 23 hours.
	old := w.key(t, quiet.Rotation.OldKID)
	at := quiet.Rotation.StartedAt
	w.used(t, old, at.Add(time.Minute))
	w.use.see(old.KID, network(2), "job", at.Add(time.Minute))
	w.sql(t, fmt.Sprintf(`INSERT INTO key_sources (kid, tenant_id, network, agent, first_seen, last_seen, longest_gap, requests, limited, refused)
		VALUES ('%s', '%s', '%s', 'job', '%s', '%s', 82800, 2, 0, 0)`, old.KID, ten, network(2),
		at.Add(-23*time.Hour).Format(time.RFC3339), at.Add(time.Minute).Format(time.RFC3339)))
	if _, err := w.rotations.End(w.ctx, owner, of["ended"], "r"); console.CodeOf(err) != console.CodeConflict {
		t.Fatalf("its overlap is over: %v", err)
	}
	w.clock.add(time.Second)
	if err := w.jobs.Expire(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.use.told(w.clock.now())
	return w, of
}

func TestRotations_ListIsByRiskOverdueFirst(t *testing.T) {
	t.Parallel()
	w, of := fleetOfRotations(t)
	for _, limit := range []int{1, 2, 3, 200} {
		ids, shown := byRisk(t, w.rotations, console.RotationQuery{}, limit)
		want := []string{of["overdue"], of["overdue later"], of["quiet"], of["fresh"]}
		if len(ids) != 6 || !slices.Equal(ids[:4], want) {
			t.Fatalf("by %d: %v, want first %v (%v)", limit, ids, want, of)
		}
		for name, state := range map[string]console.RotationShown{
			"overdue": console.ShownOverdue, "overdue later": console.ShownOverdue, "fresh": console.ShownReady, "ended": console.ShownCompleted,
			// Silent for longer than a quarter of its overlap, and shorter than twice its job's rhythm.
			"quiet": console.ShownOverdue,
		} {
			if shown[of[name]] != state {
				t.Errorf("by %d: %s is shown as %s, want %s", limit, name, shown[of[name]], state)
			}
		}
	}
}

func TestRotations_ListAndDetailSayTheSame(t *testing.T) {
	t.Parallel()
	w, _ := fleetOfRotations(t)
	items, _, err := w.rotations.ListByRisk(w.ctx, console.RotationQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range items {
		if r.OldKID == w.old {
			continue
		}
		ev, err := w.rotations.Evidence(w.ctx, owner, r.ID)
		if err != nil {
			t.Fatal(err)
		}
		// The source of the quiet one has its rhythm in the table alone, here.
		if ev.Shown != r.Shown && ev.Needed == 24*time.Hour {
			t.Errorf("%s: list %s, detail %s", r.ID, r.Shown, ev.Shown)
		}
	}
}

func TestRotations_ListIsFiltered(t *testing.T) {
	t.Parallel()
	w, of := fleetOfRotations(t)
	for state, want := range map[console.RotationShown][]string{
		console.ShownOverdue:   {of["overdue"], of["overdue later"], of["quiet"]},
		console.ShownReady:     {of["fresh"]},
		console.ShownOverlap:   {of["overdue"], of["overdue later"], of["quiet"], of["fresh"]},
		console.ShownCancelled: {of["cancelled"]},
		console.ShownCompleted: {of["ended"]},
		console.ShownForced:    nil,
	} {
		if ids, _ := byRisk(t, w.rotations, console.RotationQuery{State: state}, 2); !slices.Equal(ids, want) {
			t.Errorf("%s: %v, want %v", state, ids, want)
		}
	}
	if ids, _ := byRisk(t, w.rotations, console.RotationQuery{TenantID: "ten_aaaaaaaaaaaaaaaa"}, 2); len(ids) != 0 {
		t.Errorf("of another tenant: %v", ids)
	}
	_, next, err := w.rotations.ListByRisk(w.ctx, console.RotationQuery{Page: console.Page{Limit: 1}})
	if err != nil || next == "" {
		t.Fatal(err)
	}
	_, _, err = w.rotations.ListByRisk(w.ctx, console.RotationQuery{State: console.ShownForced, Page: console.Page{After: next}})
	wantCode(t, err, console.CodeInvalid) // a cursor of another list
}
