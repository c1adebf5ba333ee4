// Package csvout writes CSV (RFC 4180) that spreadsheets open as what it says:
// a text that a spreadsheet would run as a formula is shown as text, a number
// stays a number. Restore takes back what was done to a text.
//
// It is a leaf: it must not import any package of this module.
package csvout

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// ContentType is that of what a Writer writes.
const ContentType = "text/csv; charset=utf-8"

// Writer writes rows. It quotes by itself: encoding/csv, when it ends rows in
// CRLF as RFC 4180 asks, drops carriage returns out of texts.
type Writer struct{ out *bufio.Writer }

// NewWriter returns a writer of rows that end in CRLF. Flush before w is closed.
func NewWriter(w io.Writer) *Writer { return &Writer{bufio.NewWriter(w)} }

// Row writes one row. A cell is a string, an int, an int64, a bool, a time.Time
// (RFC 3339 with its offset; the zero time is empty), a *time.Time or a []string
// (joined by blanks). Texts are defused, numbers are not. An error stays: later
// rows are not written.
func (w *Writer) Row(cells ...any) error {
	for i, c := range cells {
		text, err := cell(c)
		if err != nil {
			return fmt.Errorf("cell %d: %w", i+1, err)
		}
		if i > 0 {
			_ = w.out.WriteByte(',') // a bufio.Writer keeps its first error until it is asked
		}
		_, _ = w.out.WriteString(quote(text))
	}
	if _, err := w.out.WriteString("\r\n"); err != nil {
		return fmt.Errorf("write row: %w", err)
	}
	return nil
}

// quote quotes a cell that would not be read as one otherwise.
func quote(s string) string {
	if !strings.ContainsAny(s, ",\"\r\n") && !strings.HasPrefix(s, " ") {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

// Flush writes what is buffered.
func (w *Writer) Flush() error { return w.out.Flush() }

func cell(c any) (string, error) {
	switch v := c.(type) {
	case nil:
		return "", nil
	case string:
		return Defuse(v), nil
	case []string:
		return Defuse(strings.Join(v, " ")), nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case bool:
		return strconv.FormatBool(v), nil
	case time.Time:
		return moment(v), nil
	case *time.Time:
		if v == nil {
			return "", nil
		}
		return moment(*v), nil
	}
	return "", fmt.Errorf("%T cannot be written", c)
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

// Defuse puts an apostrophe before a text that a spreadsheet would run as a
// formula, and before one that begins so already, so that Restore gives back
// exactly the text.
func Defuse(s string) string {
	if loaded(s) {
		return "'" + s
	}
	return s
}

// Restore takes the apostrophe away that Defuse has put.
func Restore(s string) string {
	if rest, ok := strings.CutPrefix(s, "'"); ok && loaded(rest) {
		return rest
	}
	return s
}

// loaded reports whether the first character that counts begins a formula, in
// ASCII or full width; TAB and CR do where they stand first.
func loaded(s string) bool {
	s = strings.TrimLeft(s, "'")
	if s == "" {
		return false
	}
	if s[0] == '\t' || s[0] == '\r' || s[0] == '\n' {
		return true
	}
	s = strings.TrimLeftFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.C, r) || r == '\'' })
	for _, r := range s {
		return strings.ContainsRune("=+-@＝＋－＠", r)
	}
	return false
}

// FileName makes the value of a Content-Disposition header that downloads a file
// called by a word and a day: headgate-tenants-2026-11-30.csv. Anything but
// letters, digits, dots and hyphens of the word is left out.
func FileName(word string, day time.Time) string {
	word = strings.Map(func(r rune) rune {
		if r < 128 && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '.') {
			return r
		}
		return -1
	}, word)
	return `attachment; filename="headgate-` + word + "-" + day.UTC().Format(time.DateOnly) + `.csv"`
}
