package console

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

const (
	defaultPage = 50
	maxPage     = 200
)

func (p Page) limit() int {
	switch {
	case p.Limit <= 0:
		return defaultPage
	case p.Limit > maxPage:
		return maxPage
	}
	return p.Limit
}

// encodeCursor makes the opaque text of a place.
func encodeCursor(c Cursor) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(c.At.UnixMicro(), 10) + " " + c.ID))
}

// decodeCursor reads what encodeCursor made; "" is the beginning.
func decodeCursor(s string) (Cursor, error) {
	if s == "" {
		return Cursor{}, nil
	}
	bad := invalid(FieldError{Field: "cursor", Message: "This is not a cursor of this list."})
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) > 200 {
		return Cursor{}, bad
	}
	at, id, ok := strings.Cut(string(b), " ")
	micros, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil || id == "" || strconv.FormatInt(micros, 10) != at || !printable(id) {
		return Cursor{}, bad
	}
	return Cursor{At: time.UnixMicro(micros).UTC(), ID: id}, nil
}

// number is the place as a list counts it that goes by numbers and not by time, 0 for
// the beginning.
func (c Cursor) number() (int64, error) {
	if c.ID == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(c.ID, 10, 64)
	if err != nil || n < 1 {
		return 0, invalid(FieldError{Field: "cursor", Message: "This is not a cursor of this list."})
	}
	return n, nil
}

// printable reports whether s has printable ASCII only and no blanks, as ids do.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// cut returns the first limit rows and the cursor to the next page, "" on the
// last. rows was asked for with one more than limit.
func cut[T any](rows []T, limit int, key func(T) Cursor) ([]T, string) {
	if len(rows) <= limit {
		return rows, ""
	}
	rows = rows[:limit]
	return rows, encodeCursor(key(rows[limit-1]))
}

// paged reads a page of a list: read gives at most limit rows after a place, key is the
// place of a row. It returns them with the cursor to the next page, "" on the last.
func paged[T any](
	ctx context.Context, store Store, p Page, read func(tx Tx, after Cursor, limit int) ([]T, error), key func(T) Cursor,
) (items []T, next string, err error) {
	after, err := decodeCursor(p.After)
	if err != nil {
		return nil, "", err
	}
	limit := p.limit()
	err = store.Read(ctx, func(tx Tx) error {
		items, err = read(tx, after, limit+1)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	items, next = cut(items, limit, key)
	return items, next, nil
}
