package console

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/policy"
)

// law is the policy in force in the form in which values are looked up by limit
// id. It is immutable.
type law struct {
	version int64
	digest  string
	*policy.Compiled
	order  []string                // ids of what is met on routes, in the order of the policy
	routes map[string]*metOnRoutes // by id: shared limits, those of routes, concurrency
}

// metOnRoutes is a limit that routes with identity api_key charge.
type metOnRoutes struct {
	rate  *policy.CompiledLimit
	slots *policy.CompiledConcurrency
	names []string
}

// lawCache remembers the law of the version in force.
type lawCache struct {
	mu  sync.Mutex
	now *law
}

// inForce is the law of the version in force; nil before the first publication.
func (c *lawCache) inForce(ctx context.Context, tx Tx) (*law, error) {
	number, digest, err := tx.HeadNumber(ctx)
	if IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != nil && c.now.version == number && c.now.digest == digest {
		return c.now, nil
	}
	v, err := tx.Version(ctx, number)
	if err != nil {
		return nil, err
	}
	doc, err := v.Document()
	if err != nil {
		return nil, fmt.Errorf("read version %d: %w", number, err)
	}
	compiled, err := policy.Compile(doc)
	if err != nil {
		return nil, fmt.Errorf("compile version %d: %w", number, err)
	}
	c.now = lawOf(number, digest, compiled)
	return c.now, nil
}

func lawOf(number int64, digest string, c *policy.Compiled) *law {
	l := &law{version: number, digest: digest, Compiled: c, routes: map[string]*metOnRoutes{}}
	met := func(id, route string) *metOnRoutes {
		m := l.routes[id]
		if m == nil {
			m = &metOnRoutes{}
			l.routes[id], l.order = m, append(l.order, id)
		}
		m.names = append(m.names, route)
		return m
	}
	for _, r := range c.Routes {
		if r.Route.Identity != policy.IdentityAPIKey {
			continue
		}
		for i := range r.Limits {
			met(r.Limits[i].ID, r.Name).rate = &r.Limits[i]
		}
		if r.Concurrency != nil {
			met(r.Concurrency.ID, r.Name).slots = r.Concurrency
		}
	}
	return l
}

// ids are those of all limits that a tenant on a plan meets, in the order in which
// they are asked.
func (l *law) ids(plan string) []string {
	var out []string
	for i := range l.Global {
		out = append(out, l.Global[i].ID)
	}
	for i := range l.Plans[plan] {
		out = append(out, l.Plans[plan][i].ID)
	}
	out = append(out, l.order...)
	if q := l.Quotas[plan]; q != nil {
		out = append(out, q.ID)
	}
	return out
}

// ownable reports whether what is counted per these dimensions can have a value
// for each tenant.
func ownable(per policy.Per) bool { return per != policy.PerGlobal && per != policy.PerIP }

// near lists ids that somebody may have meant who wrote another one, the closest first.
func (l *law) near(plan, id string) []string {
	type candidate struct {
		id       string
		distance int
	}
	var all []candidate
	for _, have := range l.ids(plan) {
		if in := l.limit(plan, have, nil, time.Time{}); in == nil || !in.Own {
			continue
		}
		d := distance(id, have)
		if _, tail, ok := strings.Cut(have, "."); ok && tail == id {
			d = 0 // the name alone
		}
		all = append(all, candidate{have, d})
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return a.distance - b.distance })
	var out []string
	for _, c := range all[:min(len(all), 3)] {
		out = append(out, c.id)
	}
	return out
}

// distance is how many letters have to be put in, taken out or replaced. Both
// are as long as ids of limits.
func distance(a, b string) int {
	if len(a) > 200 {
		a = a[:200]
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
