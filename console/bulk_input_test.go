package console

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/csvout"
)

// readAll reads an input as an upload does: rows, and what is wrong with each.
func readAll(k BulkKind, f BulkFormat, in io.Reader) (rows []BulkInput, problems []string, err error) {
	r, err := openInput(k, f, in)
	if err != nil {
		return nil, nil, err
	}
	m := rowMaker{d: Deps{Now: func() time.Time { return time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC) }}.withDefaults(), kind: k}
	for {
		c, err := r.next()
		if errors.Is(err, io.EOF) {
			return rows, problems, nil
		}
		if err != nil {
			return rows, problems, err
		}
		row, problem, err := m.row(c)
		if err != nil {
			return rows, problems, err
		}
		rows, problems = append(rows, row), append(problems, problem)
	}
}

func inputText(err error) string {
	var e *Error
	if !asError(err, &e) {
		return fmt.Sprint(err)
	}
	var all []string
	for _, f := range e.Fields {
		all = append(all, f.Field+": "+f.Message)
	}
	return strings.Join(all, " | ")
}

func TestBulkInput_HeadersThatCannotBeUsedAreToldWhole(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"", "input: The file is empty."}, {"\n", "input: The file is empty."},
		{"\xff\xfen\x00a\x00", "input: The file is in UTF-16; save it as UTF-8."},
		{"name;plan\nA;free\n", "input: Line 1: columns are separated by commas here."},
		{"name\tplan\n", "input: Line 1: columns are separated by commas here."},
		{"name,name,colour\n", `input: Line 1: the column "name" is there twice. | input: Line 1: there is no column "colour"; there are name, plan, external_id, time_zone. | input: Line 1: the column plan is missing.`},
		{"Name,plan\n", `input: Line 1: there is no column "Name"; there are name, plan, external_id, time_zone. | input: Line 1: the column name is missing.`},
		{"name,plan,\n", `input: Line 1: there is no column ""; there are name, plan, external_id, time_zone.`},
		{"na\xffme,name,plan\n", "input: Line 1: there is no column of this name; there are name, plan, external_id, time_zone."},
		{`"name,plan` + "\n", "input: Line 1: a quote is not closed, or stands within a cell that has none around it."},
		{strings.Repeat("x", 70<<10), "input: Line 1: this row is longer than 64 KiB; is a quote not closed?"},
	} {
		_, _, err := readAll(BulkImportTenants, BulkCSV, strings.NewReader(c.in))
		if got := inputText(err); got != c.want {
			t.Errorf("%.20q: got %s, want %s", c.in, got, c.want)
		}
	}
	if _, err := openInput(BulkImportTenants, "xlsx", strings.NewReader("x")); inputText(err) != "format: Choose csv or ndjson." {
		t.Errorf("got %v", err)
	}
}

func TestBulkInput_RowsThatCannotBeReadNameTheirLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format   BulkFormat
		in, want string
	}{
		{BulkCSV, "name,plan\nA,free\nB \"x\" y,free\n", "input: Line 3: a quote is not closed, or stands within a cell that has none around it."},
		{BulkCSV, "name,plan\nA,free\n\"never closed,free\n", "input: Line 3: a quote is not closed, or stands within a cell that has none around it."},
		{BulkCSV, "name,plan\nA,free\n\"" + strings.Repeat("x\n", 60<<10), "input: Line 3: this row is longer than 64 KiB; is a quote not closed?"},
		{BulkJSONLines, "{}\n" + strings.Repeat("x", 70<<10), "input: Line 2: this row is longer than 64 KiB."},
	} {
		if _, _, err := readAll(BulkImportTenants, c.format, strings.NewReader(c.in)); inputText(err) != c.want {
			t.Errorf("%.30q: got %s, want %s", c.in, inputText(err), c.want)
		}
	}
}

func TestBulkInput_WhatSpreadsheetsWriteIsRead(t *testing.T) {
	t.Parallel()
	in := "\xef\xbb\xbfplan, name ,external_id\r\nfree,\"Acme, \"\"the\"\" one\r\nand only\",a\r\n\r\nfree,'=Beta,'007\r\npro,\xff,c\r\n"
	rows, problems, err := readAll(BulkImportTenants, BulkCSV, strings.NewReader(in))
	if err != nil || len(rows) != 3 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if problems[0] != "name: One line, please." || rows[0].Line != 2 {
		t.Errorf("got %q in line %d", problems[0], rows[0].Line)
	}
	if problems[1] != "" || rows[1].Name != "=Beta" || rows[1].Subject != "'007" || rows[1].Line != 5 || rows[1].TimeZone != "UTC" {
		t.Errorf("got %+v, %q", rows[1], problems[1])
	}
	if problems[2] != "name: This is not valid UTF-8." {
		t.Errorf("got %q", problems[2])
	}
}

// An export can be imported again, whatever the names are.
func TestBulkInput_R115_NamesComeBackFromAnExport(t *testing.T) {
	t.Parallel()
	names := []string{"=1+1", "'=x", "＝x", "- minus", "O'Brien", `say "hi"`, "a,b", "@home", "'quoted'"}
	var b strings.Builder
	w := csvout.NewWriter(&b)
	_ = w.Row("name", "plan")
	for _, n := range names {
		_ = w.Row(n, "free")
	}
	_ = w.Flush()
	rows, problems, err := readAll(BulkImportTenants, BulkCSV, strings.NewReader(b.String()))
	if err != nil || len(rows) != len(names) {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, n := range names {
		if problems[i] != "" || rows[i].Name != n {
			t.Errorf("%q came back as %q (%s)", n, rows[i].Name, problems[i])
		}
	}
}

// A file that holds keys themselves must not put them anywhere.
func TestBulkInput_A16_AWholeKeyInAFileIsKeptNowhere(t *testing.T) {
	t.Parallel()
	const key = "hg_live_0123456789AB_abcdefghijklmnopqrstuvwxyz0123450mwVJp"
	columns := []string{"tenant", "name", "environment", "kid", "digest", "scopes", "expires_at"}
	for i := range columns {
		cells := []string{"t", "n", "live", "K00000000001", "sha256:" + strings.Repeat("ab", 32), "", ""}
		cells[i] = key
		rows, problems, err := readAll(BulkImportKeys, BulkCSV, strings.NewReader(strings.Join(columns, ",")+"\n"+strings.Join(cells, ",")+"\n"))
		if err != nil || len(rows) != 1 || !strings.Contains(problems[0], "a whole key") {
			t.Fatalf("%s: %v, %v", columns[i], problems, err)
		}
		if all := fmt.Sprintf("%+v %v", rows, problems); strings.Contains(all, "abcdefghijklmnop") {
			t.Errorf("%s: the key is in %s", columns[i], all)
		}
	}
	_, _, err := readAll(BulkImportKeys, BulkCSV, strings.NewReader(key+","+key+"\n"))
	if strings.Contains(inputText(err), "abcdefghijklmnop") {
		t.Errorf("the key is in %s", inputText(err))
	}
	_, problems, _ := readAll(BulkImportKeys, BulkJSONLines, strings.NewReader(`{"`+key+`": "x"}`))
	if strings.Contains(fmt.Sprint(problems), "abcdefghijklmnop") {
		t.Errorf("the key is in %v", problems)
	}
}

func TestBulkInput_DigestsAndTimes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"sha256:" + strings.Repeat("ab", 32): "",
		"sha256:" + strings.Repeat("AB", 32): "digest: This must be sha256:",
		strings.Repeat("ab", 32):             "digest: This must be sha256:",
		"sha256:" + strings.Repeat("ab", 31): "digest: This must be sha256:",
		"sha256:" + strings.Repeat("0", 64):  "digest: This is no digest of a key.",
		"":                                   "digest: This must be sha256:",
	} {
		var p problems
		digest(&p, in)
		if got := fieldsText(p); !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for in, want := range map[string]string{
		"": "", "2027-01-31": "", "2027-01-31T12:00:00+02:00": "", "2026-11-30": "expires_at: This must lie in the future.",
		"31.1.2027": "expires_at: This must be a time", "2027-02-30": "expires_at: This must be a time",
	} {
		var p problems
		expiry(&p, in, now)
		if got := fieldsText(p); !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzBulkInput(f *testing.F) {
	for _, s := range []string{
		"tenant,name,environment,kid,digest\na,b,live,K00000000001,sha256:" + strings.Repeat("ab", 32) + "\n", "name,plan\nA,free\n", "\xef\xbb\xbfname,plan\r\n\"a\nb\",free\r\n",
		`{"name": "A", "plan": "free"}`, `{"scopes": ["a", "b"]}`, "\xff\xfe", "name,plan\n\"", "{", `{"name":"\ud800"}`, "[]", "null\n", `{"name": 1e999}`,
	} {
		f.Add(s, true, true)
		f.Add(s, false, false)
	}
	f.Fuzz(func(t *testing.T, s string, keys, lines bool) {
		k, format := BulkImportTenants, BulkCSV
		if keys {
			k = BulkImportKeys
		}
		if lines {
			format = BulkJSONLines
		}
		rows, problems, err := readAll(k, format, strings.NewReader(s))
		var e *Error
		if err != nil && (!asError(err, &e) || e.Code != CodeInvalid) {
			t.Fatalf("%v is not for the user", err)
		}
		last := int64(0)
		for i, r := range rows {
			if r.Line <= last {
				t.Errorf("line %d comes after %d", r.Line, last)
			}
			last = r.Line
			if problems[i] == "" && (r.Name == "" || r.ObjectID == "" || k == BulkImportKeys && (len(r.Digest) != 32 || len(r.Subject) != 12)) {
				t.Errorf("%+v is taken for good", r)
			}
		}
	})
}

// A line of two bytes is a row, too, and a file of the largest size would be a
// hundred million of them.
func TestBulkInput_RowsAreBounded(t *testing.T) {
	t.Parallel()
	for _, lines := range []string{"x\n", "\"a\",free\n"} {
		rows, err := openInput(BulkImportTenants, BulkCSV, strings.NewReader("name,plan\n"+strings.Repeat(lines, 4)))
		if err != nil {
			t.Fatal(err)
		}
		d := Deps{}.withDefaults()
		u := &uploading{s: &Bulk{d: d, maxRows: 3}, maker: rowMaker{d: d, kind: BulkImportTenants}}
		if err := u.run(t.Context(), rows); CodeOf(err) != CodeInvalid || !strings.Contains(err.Error(), "more than 3 rows") {
			t.Errorf("%q: %v", lines, err)
		}
	}
}
