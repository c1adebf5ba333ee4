package console

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/policy"
)

// historyVersions is how many versions back a change of a route is looked for. What
// was measured before all of them counts as stale.
const historyVersions = 200

// routeHistory knows in which version each route changed last. Versions never change,
// so each is read once.
type routeHistory struct {
	mu      sync.Mutex
	first   int64             // the oldest version that was looked at; 0: none
	through int64             // the newest
	body    map[string]string // of each route, in the newest
	changed map[string]int64  // the newest version in which a route came, went or became another
}

// follow looks at the versions from the oldest of some measurements on.
func (h *routeHistory) follow(ctx context.Context, tx Tx, of []Capacity) error {
	head, _, err := tx.HeadNumber(ctx)
	if IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	oldest := head
	for _, c := range of {
		oldest = min(oldest, max(c.Version, 1))
	}
	oldest = max(oldest, head-historyVersions, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.first == 0 || oldest < h.first || head < h.through { // the last after a restored database
		h.first, h.through, h.body, h.changed = oldest, 0, map[string]string{}, map[string]int64{}
	}
	for n := max(h.through+1, h.first); n <= head; n++ {
		if err := h.see(ctx, tx, n); err != nil {
			return err
		}
	}
	return nil
}

// see looks at one version. Numbers may be missing: a canary that was stopped is none.
func (h *routeHistory) see(ctx context.Context, tx Tx, n int64) error {
	v, err := tx.Version(ctx, n)
	if IsNotFound(err) {
		h.through = n
		return nil
	}
	if err != nil {
		return fmt.Errorf("read version %d: %w", n, err)
	}
	doc, err := v.Document()
	if err != nil {
		return fmt.Errorf("read version %d: %w", n, err)
	}
	now := routeBodies(doc)
	for name, body := range now {
		if h.through != 0 && h.body[name] != body {
			h.changed[name] = n
		}
	}
	for name := range h.body {
		if _, ok := now[name]; !ok {
			h.changed[name] = n
		}
	}
	h.body, h.through = now, n
	return nil
}

// routeBodies are all that a document says of each route, with the shared limits that
// it uses, as one text a route.
func routeBodies(doc *policy.Document) map[string]string {
	out := make(map[string]string, len(doc.Routes))
	for _, r := range doc.Routes {
		one := &policy.Document{APIVersion: doc.APIVersion, Routes: []policy.Route{r}}
		for _, l := range doc.Shared {
			if slices.Contains(r.Uses, l.Name) {
				one.Shared = append(one.Shared, l)
			}
		}
		out[r.Name] = string(one.Canonical())
	}
	return out
}

// stale says why a measurement says little now; "" while it is fresh.
func (h *routeHistory) stale(c Capacity, now time.Time) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, there := h.body[c.Route]
	changed := h.changed[c.Route]
	switch {
	case h.through != 0 && !there:
		return "the route is not in the policy in force any more"
	case changed > c.Version:
		return fmt.Sprintf("the route changed since, in v%d", changed)
	case c.Version < h.first:
		return fmt.Sprintf("more than %d versions were published since", historyVersions)
	case now.Sub(c.MeasuredAt) > capacityFresh:
		return "it is older than 90 days"
	}
	return ""
}

// hasRoute reports whether the policy in force has a route.
func (l *law) hasRoute(name string) bool {
	return slices.ContainsFunc(l.Routes, func(r *policy.CompiledRoute) bool { return r.Name == name })
}
