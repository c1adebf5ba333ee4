package console

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"
)

const (
	defaultEvents = 1000
	maxEventPage  = 10_000
	// eventScan bounds the rows that one page looks at.
	eventScan = 50_000
)

// encodePlace makes a cursor of a place.
func encodePlace(p UsagePlace) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d.%d", p.Ingest, p.Run, p.Seq))
}

// decodePlace reads what encodePlace made; "" is the beginning.
func decodePlace(s string) (p UsagePlace, err error) {
	if s == "" {
		return UsagePlace{}, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err == nil && len(b) <= 64 {
		_, err = fmt.Sscanf(string(b), "%d.%d.%d", &p.Ingest, &p.Run, &p.Seq)
	}
	if err != nil || p.Ingest < 0 || p.Run < 0 || p.Seq < 0 || encodePlace(p) != s {
		return UsagePlace{}, invalid(FieldError{Field: "cursor", Message: "This is not a cursor of this list."})
	}
	return p, nil
}

// Events tells rows of the ledger.
func (s *Ledger) Events(ctx context.Context, actor Actor, q UsageEventQuery) (UsageEventPage, error) {
	if err := actor.needOf(q.TenantID, PermView, PermOwnTenant); err != nil {
		return UsageEventPage{}, err
	}
	after, err := decodePlace(q.After)
	if err != nil {
		return UsageEventPage{}, err
	}
	limit := q.Limit
	if limit <= 0 {
		limit = defaultEvents
	}
	limit = min(limit, maxEventPage)
	if q.From.IsZero() {
		q.From = time.Unix(0, 0)
	}
	if q.To.IsZero() {
		q.To = forever()
	}
	if q.From.Year() < 1970 || q.To.Year() > 9999 {
		return UsageEventPage{}, invalid(FieldError{Field: "from", Message: "The range must lie between the years 1970 and 9999."})
	}
	scan := eventScan
	if q.TenantID == "" && !q.Billable && q.From.Unix() <= 0 && q.To.Equal(forever()) {
		scan = limit // every row that is looked at is wanted
	}
	var page UsageEventPage
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		rows, last, looked, err := tx.UsageEvents(ctx, q, after, limit, scan)
		if err != nil {
			return err
		}
		page = UsageEventPage{Events: make([]UsageEvent, len(rows)), Done: looked < scan && len(rows) < limit}
		for i, r := range rows {
			page.Events[i] = r.UsageEvent
		}
		if len(rows) == limit { // there may be more among those that were looked at
			r := rows[limit-1]
			last = UsagePlace{Ingest: r.Ingest, Run: r.Run, Seq: r.Seq}
		}
		page.Next = encodePlace(last)
		return nil
	})
	return page, err
}
