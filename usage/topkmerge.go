package usage

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// MaxRefusedBody bounds an encoded report, in bytes.
const MaxRefusedBody = 512 << 10

// ErrRefused says that bytes are no report of refused subjects.
var ErrRefused = errors.New("no report of refused subjects")

// EncodeRefused writes a report as it travels: JSON.
func EncodeRefused(r *RefusedReport) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode refused subjects: %w", err)
	}
	if len(body) > MaxRefusedBody {
		return nil, fmt.Errorf("encode refused subjects: %d bytes are too many", len(body))
	}
	return body, nil
}

// DecodeRefused reads what EncodeRefused wrote. Nothing in it is believed: every error
// wraps ErrRefused, and numbers of a report that is returned can be added up.
func DecodeRefused(body []byte) (*RefusedReport, error) {
	if len(body) > MaxRefusedBody {
		return nil, fmt.Errorf("%w: %d bytes", ErrRefused, len(body))
	}
	var r RefusedReport
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	rows := 0
	for i := range r.Limits {
		l := &r.Limits[i]
		rows += len(l.Subjects)
		if l.Limit == "" || len(l.Limit) > maxRefusedName || rows > RefusedRows || len(r.Limits) > RefusedLimits || bad(l.Total) || bad(l.Floor) {
			return nil, fmt.Errorf("%w: limit %.40q is out of bounds", ErrRefused, l.Limit)
		}
		for j := range l.Subjects {
			if err := l.Subjects[j].check(); err != nil {
				return nil, fmt.Errorf("%w: limit %.40q: %w", ErrRefused, l.Limit, err)
			}
		}
	}
	if r.Replica == "" || len(r.Replica) > 64 || len(r.Boot) > 64 || bad(r.At) || bad(r.Since) || bad(r.Other) {
		return nil, fmt.Errorf("%w: head of %.64q is out of bounds", ErrRefused, r.Replica)
	}
	return &r, nil
}

const (
	maxRefusedName   = 256
	maxRefusedNumber = 1 << 53
)

func bad(n int64) bool { return n < 0 || n >= maxRefusedNumber }

func (c *RefusedCount) check() error {
	numbers := []int64{c.Count, c.Error, c.First, c.Last, c.Cost, c.Until, c.Most, c.Start, c.End, c.Numbers[0], c.Numbers[1], c.Numbers[2]}
	switch {
	case slices.ContainsFunc(numbers, bad) || c.Error > c.Count:
		return errors.New("a number is out of range")
	case len(c.Row.Tenant) > maxRefusedName || len(c.Row.Subject) > maxRefusedName || len(c.Route) > maxRefusedName:
		return errors.New("a name is too long")
	case !slices.Contains([]string{"g", "t", "c", "i", "d"}, c.Row.Kind):
		return fmt.Errorf("row of kind %.10q", c.Row.Kind)
	case !slices.Contains([]string{"rate", "concurrency", "quota", "credentials"}, c.Part):
		return fmt.Errorf("part %.20q", c.Part)
	}
	return nil
}

// MergedRefused is a subject over several replicas: numbers are added up, and the error
// is the sum of theirs, those that do not list it included.
type MergedRefused struct {
	Limit string
	RefusedCount
	Replicas []string // that list it
}

// MergeRefused adds reports up, the most refused first. Of what replicas knew of a
// subject the newest counts. The numbers count from since at the latest.
func MergeRefused(reports []*RefusedReport) (out []MergedRefused, since int64) {
	type key struct {
		limit string
		row   RefusedRow
	}
	at := map[key]int{}
	for _, r := range reports {
		if since == 0 || r.Since < since {
			since = r.Since
		}
		for i := range r.Limits {
			l := &r.Limits[i]
			for _, e := range l.Subjects {
				k := key{l.Limit, e.Row}
				n, known := at[k]
				if !known {
					at[k] = len(out)
					out = append(out, MergedRefused{Limit: l.Limit, RefusedCount: e, Replicas: []string{r.Replica}})
					continue
				}
				out[n].join(&e, r.Replica)
			}
		}
	}
	for i := range out {
		out[i].missing(reports)
	}
	slices.SortFunc(out, func(a, b MergedRefused) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Last, a.Last), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Row.Subject, b.Row.Subject), cmp.Compare(a.Row.Tenant, b.Row.Tenant))
	})
	return out, since
}

func (m *MergedRefused) join(e *RefusedCount, replica string) {
	count, errs, first, cost := m.Count+e.Count, m.Error+e.Error, min(m.First, e.First), min(m.Cost, e.Cost)
	until, last := max(m.Until, e.Until), max(m.Last, e.Last)
	if e.Last >= m.Last {
		m.Refused = e.Refused
	}
	m.Count, m.Error, m.First, m.Last, m.Cost, m.Until = count, errs, first, last, cost, until
	m.Replicas = append(m.Replicas, replica)
}

// missing adds what replicas may have counted that do not list the subject.
func (m *MergedRefused) missing(reports []*RefusedReport) {
	for _, r := range reports {
		if slices.Contains(m.Replicas, r.Replica) {
			continue
		}
		for i := range r.Limits {
			if r.Limits[i].Limit == m.Limit {
				m.Count, m.Error = m.Count+r.Limits[i].Floor, m.Error+r.Limits[i].Floor
			}
		}
	}
}
