package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/web/api"
)

// shell is what the commands over the JSON API have in common.
type shell struct {
	Output string `help:"table, for people, or json, for programs." enum:"table,json" default:"table" short:"o"`
	consoleAccess
}

// session is one command at work.
type session struct {
	*apiClient
	json     bool
	out, err io.Writer
}

// begin reads the way to the console. More problems may have been added to p.
func (s *shell) begin(k *kong.Kong, p *config.Problems) (*session, error) {
	client := s.client(p)
	if err := p.Err(); err != nil {
		return nil, err
	}
	return &session{apiClient: client, json: s.Output == "json", out: k.Stdout, err: k.Stderr}, nil
}

// notSecret refuses an argument that is a whole key: others on the machine can
// read the arguments of a command.
func notSecret(p *config.Problems, flag string, values ...string) {
	for _, v := range values {
		if _, err := apikey.Parse(strings.TrimSpace(v)); err == nil {
			p.Add(flag, "is a whole key. Give its kid, the 12 characters after the environment; everybody on this machine could read the key, so think about revoking it")
		}
	}
}

// path makes a path of the API of parts that may be anything.
func path(parts ...string) string {
	var b strings.Builder
	b.WriteString(api.Prefix)
	for _, p := range parts {
		b.WriteString("/" + url.PathEscape(p))
	}
	return b.String()
}

// query adds what is not "" to a path: name, value, name, value.
func query(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// ask makes a call, and prints its answer as JSON, or decodes it for people.
func (s *session) ask(ctx context.Context, in apiCall, out any, text func()) error {
	var raw json.RawMessage
	if _, err := s.send(ctx, in, &raw); err != nil {
		return refusedCommand(err)
	}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, out); err != nil {
			return fmt.Errorf("%s %s: decode answer: %w", in.method, in.path, err)
		}
	}
	return s.print(raw, text)
}

func (s *session) print(raw json.RawMessage, text func()) error {
	if !s.json {
		text()
		return nil
	}
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	say(s.out, "%s", bytes.TrimSpace(b.Bytes()))
	return nil
}

// make is ask for a call that makes something: it may be repeated and is done once.
func (s *session) make(ctx context.Context, in apiCall, out any, text func()) (err error) {
	in.method = http.MethodPost
	if in.key, err = newKey(); err != nil {
		return err
	}
	return s.ask(ctx, in, out, text)
}

// refusedCommand gives an error of the API its exit status.
func refusedCommand(err error) error {
	if e, ok := errors.AsType[*apiError](err); ok && (e.status == http.StatusUnprocessableEntity || e.status == http.StatusRequestEntityTooLarge) {
		return &exitError{exitProblems, err}
	}
	return err
}

// listing is a list to be asked for page by page.
type listing struct {
	Limit int `help:"Most rows to print; 0 for all." default:"100"`
}

// list asks for pages until there are enough rows, and prints them.
func list[T any](ctx context.Context, s *session, most int, at string, header string, row func(T) []any) error {
	var raws []json.RawMessage
	cursor, more := "", false
	for {
		var page struct {
			Items []json.RawMessage `json:"items"`
			Next  string            `json:"next_cursor"`
		}
		limit := 200
		if most > 0 {
			limit = min(limit, most-len(raws))
		}
		sep := "?"
		if strings.Contains(at, "?") {
			sep = "&"
		}
		next := at + sep + "limit=" + strconv.Itoa(limit)
		if cursor != "" {
			next += "&cursor=" + url.QueryEscape(cursor)
		}
		if _, err := s.send(ctx, apiCall{method: http.MethodGet, path: next}, &page); err != nil {
			return refusedCommand(err)
		}
		raws = append(raws, page.Items...)
		if cursor = page.Next; cursor == "" {
			break
		}
		if more = most > 0 && len(raws) >= most; more {
			break
		}
	}
	return s.rows(raws, more, header, func(raw json.RawMessage) ([]any, error) {
		var item T
		if err := json.Unmarshal(raw, &item); err != nil {
			return nil, fmt.Errorf("decode row: %w", err)
		}
		return row(item), nil
	})
}

// rows prints a list: a JSON array, or a table that says when there is more.
func (s *session) rows(raws []json.RawMessage, more bool, header string, row func(json.RawMessage) ([]any, error)) error {
	if s.json {
		if raws == nil {
			raws = []json.RawMessage{}
		}
		b, err := json.MarshalIndent(raws, "", "  ")
		if err != nil {
			return fmt.Errorf("print: %w", err)
		}
		say(s.out, "%s", b)
		return nil
	}
	t := newTable(s.out, header)
	for _, raw := range raws {
		cells, err := row(raw)
		if err != nil {
			return err
		}
		t.row(cells...)
	}
	t.end()
	if more {
		say(s.err, "There are more; --limit 0 prints all of them.")
	}
	return nil
}

// table prints rows under a header, in columns.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, header string) table {
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	_, _ = fmt.Fprintln(t.w, strings.ToUpper(strings.ReplaceAll(header, " ", "\t")))
	return t
}

func (t table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = shown(c)
	}
	_, _ = fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

func (t table) end() { _ = t.w.Flush() }

// shown is a cell as people read it. What others have named cannot move the cursor.
func shown(c any) string {
	switch v := c.(type) {
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case *time.Time:
		if v == nil {
			return "-"
		}
		return v.UTC().Format(time.RFC3339)
	case []string:
		c = strings.Join(v, " ")
	}
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '\uFFFD'
		}
		return r
	}, fmt.Sprint(c))
	if text == "" {
		return "-"
	}
	return text
}

// facts prints name and value, one pair a line: name, value, name, value.
func facts(w io.Writer, pairs ...any) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		_, _ = fmt.Fprintf(t, "%v:\t%s\n", pairs[i], shown(pairs[i+1]))
	}
	_ = t.Flush()
}

// acting is a change that gateways have to hear of.
type acting struct {
	Reason  string        `help:"Why; kept in the audit trail." placeholder:"TEXT"`
	Wait    bool          `help:"Wait until every gateway has applied it; status 3 when one has not." default:"true" negatable:""`
	Timeout time.Duration `help:"For how long to wait, at most 60s." default:"10s"`
}

// check notes what is wrong.
func (a acting) check(p *config.Problems, reason bool) {
	if reason && strings.TrimSpace(a.Reason) == "" {
		p.Add("--reason", "is required")
	}
	if a.Timeout < 0 || a.Timeout > time.Minute {
		p.Add("--timeout", "must be between 0s and 60s")
	}
}

// on is a path with the wish to wait.
func (a acting) on(path string, pairs ...string) string {
	if a.Wait {
		pairs = append(pairs, "wait", "converged", "timeout", a.Timeout.String())
	}
	return query(path, pairs...)
}

// told says how far a change has come, and is an error when that is not everywhere.
func (a acting) told(s *session, done string, c api.Converged) error {
	if !a.Wait || c.Of == nil {
		if !s.json {
			say(s.err, "%s.", done)
		}
		if a.Wait {
			return &exitError{exitNotEverywhere, errors.New("it is stored, and it is not known which gateways have applied it")}
		}
		return nil
	}
	on, side := c.RefusedOn, "refused"
	if c.AcceptedOn != nil {
		on, side = c.AcceptedOn, "accepted"
	}
	if on == nil {
		return nil
	}
	if !s.json {
		after := ""
		if c.AfterMS != nil {
			after = fmt.Sprintf(" after %.1f s", *c.AfterMS/1000)
		}
		say(s.err, "%s: %s on %d of %d gateways%s.", done, side, *on, *c.Of, after)
	}
	if *on < *c.Of {
		return &exitError{exitNotEverywhere, fmt.Errorf("it is stored, and %d of %d gateways have not applied it", *c.Of-*on, *c.Of)}
	}
	return nil
}

// days is a duration that may be given in days: 7d.
type days time.Duration

// UnmarshalText reads 7d, or what Go calls a duration.
func (d *days) UnmarshalText(b []byte) error {
	s := string(b)
	if n, ok := strings.CutSuffix(s, "d"); ok {
		whole, err := strconv.Atoi(n)
		if err != nil || whole < 0 || whole > 36500 {
			return errors.New("must be a duration such as 7d, 24h or 90m")
		}
		*d = days(time.Duration(whole) * 24 * time.Hour)
		return nil
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return errors.New("must be a duration such as 7d, 24h or 90m")
	}
	*d = days(v)
	return nil
}

// text is the duration as the API takes it.
func (d days) text() string { return time.Duration(d).String() }

// moment is a time, or a day, or a span from now: 2027-01-31, 30d.
type moment struct{ time.Time }

// UnmarshalText reads one.
func (m *moment) UnmarshalText(b []byte) error {
	s := string(b)
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			m.Time = t
			return nil
		}
	}
	var d days
	if err := d.UnmarshalText(b); err != nil || s == "" {
		return errors.New("must be a time such as 2027-01-31T00:00:00Z, a day such as 2027-01-31, or a span from now such as 30d")
	}
	m.Time = time.Now().Add(time.Duration(d)).UTC().Truncate(time.Second)
	return nil
}

// at is the time for the API; nil when none was given.
func (m moment) at() *time.Time {
	if m.IsZero() {
		return nil
	}
	return &m.Time
}

// save streams an answer that is a file, such as a list as CSV.
func (s *session) save(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	long := *s.http
	long.Timeout = 0 // it takes what it takes; ctx ends it
	res, err := long.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		got, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		return refusedCommand(refusedCall(apiCall{method: http.MethodGet, path: path}, res.StatusCode, got))
	}
	if _, err := io.Copy(s.out, res.Body); err != nil {
		return fmt.Errorf("the list broke off: %w", err)
	}
	return nil
}

// openInput opens a file, or standard input for -.
func openInput(name string) (io.ReadCloser, error) {
	if name == standardInput {
		return io.NopCloser(os.Stdin), nil
	}
	return os.Open(name)
}
