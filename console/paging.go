package console

import (
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
