package console

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// rankMany is from how many groups on their order is remembered: reading it means
	// adding up all of them.
	rankMany = 1000
	// rankFresh is how long a remembered order is taken as it is; up to rankStale it is
	// taken, too, while it is read again.
	rankFresh, rankStale = 15 * time.Second, 2 * time.Minute
	rankReading          = 10 * time.Second
	// ranksKept bounds what is remembered.
	ranksKept = 256
)

// ranks remembers which groups are the largest where there are very many. Only their
// order and their number are remembered; what each used is read anew.
type ranks struct {
	mu  sync.Mutex
	all map[string]*ranking
}

type ranking struct {
	keys    []string
	count   int
	at      time.Time
	reading bool
}

// rankKey is a question for the largest groups, "" when the answer is never remembered.
func rankKey(family UsageFamily, r UsageRead) string {
	if len(r.TenantIDs)+len(r.KIDs) > 0 || r.Group != GroupTenant && r.Group != GroupKey {
		return ""
	}
	c := r.Cover
	return fmt.Sprintf("%v %d %d %v %s %s %d %q %q %q", family, c.From.Unix(), c.To.Unix(), c.Minutes, r.Group, r.By, r.Top, r.Route, r.Plan, r.Outcome)
}

// get returns what is remembered. again is true for one caller when it is old enough to
// be read again.
func (s *ranks) get(key string, now time.Time) (keys []string, count int, again, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.all[key]
	if r == nil || now.Sub(r.at) > rankStale || now.Before(r.at) {
		return nil, 0, false, false
	}
	again = now.Sub(r.at) > rankFresh && !r.reading
	r.reading = r.reading || again
	return r.keys, r.count, again, true
}

// put remembers an order, or forgets one that is short by now.
func (s *ranks) put(key string, cells []UsageCell, count int, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if count < rankMany {
		delete(s.all, key)
		return
	}
	if s.all == nil || len(s.all) >= ranksKept {
		s.all = make(map[string]*ranking)
	}
	keys := make([]string, len(cells))
	for i, c := range cells {
		keys[i] = c.Key
	}
	s.all[key] = &ranking{keys: keys, count: count, at: now}
}

// tried lets the next one read an order again.
func (s *ranks) tried(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.all[key]; r != nil {
		r.reading = false
	}
}

// largest finds the largest groups and how many there are: what each of them used, or,
// when told is false, no more than which they are.
func (s *Ledger) largest(ctx context.Context, tx Tx, family UsageFamily, read UsageRead) (cells []UsageCell, count int, told bool, err error) {
	key := rankKey(family, read)
	if key == "" {
		cells, count, err = tx.UsageGroups(ctx, family, read)
		return cells, count, true, err
	}
	keys, count, again, ok := s.ranks.get(key, s.d.now())
	if !ok {
		if cells, count, err = tx.UsageGroups(ctx, family, read); err == nil {
			s.ranks.put(key, cells, count, s.d.now())
		}
		return cells, count, true, err
	}
	if again {
		go s.rankAgain(context.WithoutCancel(ctx), key, family, read)
	}
	for _, k := range keys {
		cells = append(cells, UsageCell{Key: k})
	}
	return cells, count, false, nil
}

// rankAgain reads an order beside the page that had the old one.
func (s *Ledger) rankAgain(ctx context.Context, key string, family UsageFamily, read UsageRead) {
	ctx, cancel := context.WithTimeout(ctx, rankReading)
	defer cancel()
	defer s.ranks.tried(key)
	err := s.d.Store.Read(ctx, func(tx Tx) error {
		cells, count, err := tx.UsageGroups(ctx, family, read)
		if err == nil {
			s.ranks.put(key, cells, count, s.d.now())
		}
		return err
	})
	if err != nil {
		s.d.Log.WarnContext(ctx, "the largest groups of usage could not be read again", "error", err)
	}
}

// sortLines puts the largest first, as sortCells does.
func sortLines(lines []UsageLine, by UsageBy) {
	slices.SortFunc(lines, func(a, b UsageLine) int {
		return cmp.Or(cmp.Compare(b.Total.by(by), a.Total.by(by)), strings.Compare(a.Key, b.Key))
	})
}
