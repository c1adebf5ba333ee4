package console

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate/internal/csvout"
	"github.com/headgate/headgate/policy/apikey"
)

// maxBulkLine bounds one row of an input, in bytes.
const maxBulkLine = 64 << 10

// bulkColumns are the columns of an import: those that it must have, then those
// that it may have.
func bulkColumns(k BulkKind) (must, may []string) {
	if k == BulkImportTenants {
		return []string{"name", "plan"}, []string{"external_id", "time_zone"}
	}
	return []string{"tenant", "name", "environment", "kid", "digest"}, []string{"scopes", "expires_at"}
}

// cells is one row by column. problem is set when the row as such cannot be read.
type cells struct {
	line    int64
	by      map[string]string
	problem string
}

// rowReader reads an input row by row; io.EOF is its end. Any other error says
// that the rest cannot be read; one for the user is an *Error.
type rowReader interface{ next() (cells, error) }

// inputError is a problem of the whole input.
func inputError(line int64, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if line > 0 {
		text = fmt.Sprintf("Line %d: %s", line, text)
	}
	return invalid(FieldError{Field: "input", Message: text})
}

// openInput looks at the beginning of an input: the header of CSV is read and checked.
func openInput(k BulkKind, f BulkFormat, in io.Reader) (rowReader, error) {
	b := bufio.NewReaderSize(in, maxBulkLine)
	head, err := b.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case len(head) == 0:
		return nil, inputError(0, "The file is empty.")
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return nil, inputError(0, "The file is in UTF-16; save it as UTF-8.")
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")): // spreadsheets write it
		_, _ = b.Discard(3)
	}
	switch f {
	case BulkCSV:
		return openCSV(k, b)
	case BulkJSONLines:
		return &lineReader{kind: k, in: b}, nil
	}
	return nil, invalid(FieldError{Field: "format", Message: "Choose csv or ndjson."})
}

// tap bounds how much is read for one row, so that a quote that nobody closes
// does not take the rest of the file into memory.
type tap struct {
	in   io.Reader
	left int
}

var errLongRow = errors.New("row is too long")

// Read implements io.Reader.
func (t *tap) Read(p []byte) (int, error) {
	if t.left <= 0 {
		return 0, errLongRow
	}
	n, err := t.in.Read(p[:min(len(p), 4096)])
	t.left -= n
	return n, err
}

type csvRows struct {
	csv     *csv.Reader
	tap     *tap
	columns []string
	last    int64 // line of the last row
}

func openCSV(k BulkKind, in io.Reader) (*csvRows, error) {
	r := &csvRows{tap: &tap{in: in, left: maxBulkLine}}
	r.csv = csv.NewReader(r.tap)
	r.csv.FieldsPerRecord = -1
	r.csv.ReuseRecord = true
	header, err := r.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, inputError(0, "The file is empty.")
	}
	if err != nil {
		return nil, r.broken(err)
	}
	r.columns = slices.Clone(header)
	return r, checkHeader(k, r.columns)
}

// checkHeader tells everything that is wrong with a header.
func checkHeader(k BulkKind, columns []string) error {
	must, may := bulkColumns(k)
	var p problems
	seen := map[string]bool{}
	for i, c := range columns {
		c = strings.TrimSpace(c)
		columns[i] = c
		switch {
		case seen[c]:
			p.add("input", "Line 1: the column %s is there twice.", shortly(c))
		case slices.Contains(must, c), slices.Contains(may, c):
		case len(columns) == 1 && strings.ContainsAny(c, ";\t"):
			p.add("input", "Line 1: columns are separated by commas here.")
			return p.err()
		default:
			p.add("input", "Line 1: there is no column %s; there are %s.", shortly(c), strings.Join(slices.Concat(must, may), ", "))
		}
		seen[c] = true
	}
	for _, c := range must {
		if !seen[c] {
			p.add("input", "Line 1: the column %s is missing.", c)
		}
	}
	return p.err()
}

// shortly quotes a word of a file that may be anything, also a secret that was
// put into the wrong place.
func shortly(s string) string {
	if len(s) > 32 || !utf8.ValidString(s) {
		return "of this name"
	}
	return fmt.Sprintf("%q", s)
}

// broken turns an error of the CSV reader into one for the user, where it is one.
func (r *csvRows) broken(err error) error {
	if e, ok := errors.AsType[*csv.ParseError](err); ok {
		return inputError(int64(e.StartLine), "a quote is not closed, or stands within a cell that has none around it.")
	}
	if errors.Is(err, errLongRow) {
		return inputError(r.last+1, "this row is longer than 64 KiB; is a quote not closed?")
	}
	return err
}

// next implements rowReader.
func (r *csvRows) next() (cells, error) {
	r.tap.left = maxBulkLine
	record, err := r.csv.Read()
	if errors.Is(err, io.EOF) {
		return cells{}, io.EOF
	}
	if err != nil {
		return cells{}, r.broken(err)
	}
	line, _ := r.csv.FieldPos(0)
	r.last = int64(line)
	out := cells{line: r.last, by: make(map[string]string, len(record))}
	if len(record) != len(r.columns) {
		out.problem = fmt.Sprintf("It has %s, and the header has %d.", counted(len(record), "cell"), len(r.columns))
		return out, nil
	}
	for i, c := range r.columns {
		out.by[c] = csvout.Restore(record[i])
	}
	return out, nil
}

// lineReader reads JSON lines.
type lineReader struct {
	kind BulkKind
	in   *bufio.Reader
	line int64
}

// next implements rowReader.
func (r *lineReader) next() (cells, error) {
	for {
		raw, err := r.in.ReadSlice('\n')
		r.line++
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return cells{}, inputError(r.line, "this row is longer than 64 KiB.")
		case err != nil && !errors.Is(err, io.EOF):
			return cells{}, err
		}
		raw = bytes.TrimSpace(raw)
		if len(raw) == 0 && errors.Is(err, io.EOF) {
			return cells{}, io.EOF
		}
		if len(raw) == 0 {
			continue
		}
		out := cells{line: r.line}
		out.by, out.problem = object(r.kind, raw)
		return out, nil
	}
}

// object reads one flat object: texts, and a list of texts for scopes. Every
// member is named once and known.
func object(k BulkKind, raw []byte) (by map[string]string, problem string) {
	if !utf8.Valid(raw) {
		return nil, "It is not valid UTF-8."
	}
	must, may := bulkColumns(k)
	dec := json.NewDecoder(bytes.NewReader(raw))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return nil, "It is not a JSON object."
	}
	by = map[string]string{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, "It is not JSON."
		}
		name, _ := t.(string) // a decoder gives nothing else here
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, "It is not JSON."
		}
		_, twice := by[name]
		switch {
		case twice:
			return nil, fmt.Sprintf("The member %s is there twice.", shortly(name))
		case !slices.Contains(must, name) && !slices.Contains(may, name):
			return nil, fmt.Sprintf("There is no member %s; there are %s.", shortly(name), strings.Join(slices.Concat(must, may), ", "))
		}
		if by[name], problem = member(name, value); problem != "" {
			return nil, problem
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, "It is not JSON."
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, "There is something after the object."
	}
	return by, ""
}

func member(name string, value json.RawMessage) (text, problem string) {
	var list []string
	switch {
	case string(value) == "null":
		return "", ""
	case value[0] == '"' && json.Unmarshal(value, &text) == nil:
		return text, ""
	case name == "scopes" && value[0] == '[' && json.Unmarshal(value, &list) == nil:
		return strings.Join(list, " "), ""
	case name == "scopes":
		return "", "scopes: A list of texts, please."
	}
	return "", name + ": A text, please."
}

// rowMaker makes rows of cells and says what is wrong with them by themselves.
type rowMaker struct {
	d     Deps
	kind  BulkKind
	zones map[string]bool // those that were looked up
}

// row returns the row, and what is wrong with it; of a row that is wrong only
// what can be no secret is kept.
func (m *rowMaker) row(c cells) (BulkInput, string, error) {
	out := BulkInput{Line: c.line}
	if c.problem != "" {
		return out, c.problem, nil
	}
	for _, text := range c.by {
		if len(apikey.Scan(text, 1)) > 0 {
			return out, "It holds a whole key. Nothing of this row was kept: give the key's digest, and think about revoking it.", nil
		}
	}
	var p problems
	var err error
	prefix := "crd"
	if m.kind == BulkImportTenants {
		prefix = "ten"
		m.tenant(&p, c.by, &out)
	} else {
		m.key(&p, c.by, &out)
	}
	if len(p) > 0 {
		return BulkInput{Line: c.line, Subject: out.Subject}, fieldsText(p), nil
	}
	out.ObjectID, err = m.d.newID(prefix)
	return out, "", err
}

func fieldsText(p problems) string {
	parts := make([]string, len(p))
	for i, f := range p {
		parts[i] = f.Field + ": " + f.Message
	}
	return strings.Join(parts, " ")
}

func (m *rowMaker) tenant(p *problems, by map[string]string, out *BulkInput) {
	out.Name, out.Plan = p.name("name", by["name"]), p.plan(by["plan"])
	id := p.text("external_id", by["external_id"], maxName, false)
	out.TimeZone = m.timeZone(p, by["time_zone"])
	if len(*p) == 0 {
		out.Subject = id
		out.Note = "on the plan " + out.Plan
	}
}

// timeZone looks each zone up once: it is a file.
func (m *rowMaker) timeZone(p *problems, s string) string {
	s = strings.TrimSpace(s)
	if m.zones[s] {
		return s
	}
	before := len(*p)
	s = p.timeZone(s)
	if len(*p) == before {
		if m.zones == nil {
			m.zones = map[string]bool{}
		}
		m.zones[s] = true
	}
	return s
}

func (m *rowMaker) key(p *problems, by map[string]string, out *BulkInput) {
	out.Tenant = p.text("tenant", by["tenant"], maxName, true)
	out.Name = p.name("name", by["name"])
	out.Environment = strings.TrimSpace(by["environment"])
	if out.Environment != apikey.Live && out.Environment != apikey.Test {
		p.add("environment", "This must be live or test.")
	}
	if kid := strings.TrimSpace(by["kid"]); apikey.ValidKID(kid) {
		out.Subject = kid
	} else {
		p.add("kid", "This must be the 12 letters and digits after hg_live_ or hg_test_.")
	}
	out.Digest = digest(p, by["digest"])
	out.Scopes = p.scopes(strings.Fields(by["scopes"]))
	out.ExpiresAt = expiry(p, by["expires_at"], m.d.now())
	out.Note = fmt.Sprintf("%s key %s of %s", out.Environment, out.Name, out.Tenant)
}

func digest(p *problems, s string) []byte {
	s = strings.TrimSpace(s)
	text, ok := strings.CutPrefix(s, "sha256:")
	sum, err := hex.DecodeString(text)
	if !ok || err != nil || len(sum) != 32 || text != strings.ToLower(text) {
		p.add("digest", "This must be sha256: and the 64 lower-case hexadecimal digits of the whole key's SHA-256.")
		return nil
	}
	if s == apikey.DummyDigest {
		p.add("digest", "This is no digest of a key.")
	}
	return sum
}

func expiry(p *problems, s string, now time.Time) *time.Time {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		if at, err = time.Parse(time.DateOnly, s); err != nil {
			p.add("expires_at", "This must be a time such as 2027-01-31T00:00:00Z, or a day such as 2027-01-31.")
			return nil
		}
	}
	at = at.UTC().Truncate(time.Microsecond)
	p.future("expires_at", at, now)
	return &at
}
