package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

// standardInput is the name of the file that is read from there.
const standardInput = "-"

// maxPolicyFile bounds what is read of a file, in bytes; a document or suite
// of that size is told to be too large.
const maxPolicyFile = 8<<20 + 1

func readFile(name string) ([]byte, error) {
	in := io.Reader(os.Stdin)
	if name != standardInput {
		f, err := os.Open(name)
		if err != nil {
			return nil, err // names the file
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxPolicyFile))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// policyFile is a policy document and the tests that belong to it.
type policyFile struct {
	name   string
	src    []byte
	doc    *policy.Document // nil when it has problems
	report policy.Report

	testsName   string
	tests       []byte // nil: there are none
	suite       *scenario.Suite
	testsReport policy.Report
}

// testFlags say where a policy's tests are.
type testFlags struct {
	Tests   string // file; "" for the one beside the document
	NoTests bool   // whatever is beside the document
}

// readPolicy reads a document and its tests. An error says that a file cannot be
// read; what is wrong with its content is in the reports.
func readPolicy(name string, t testFlags) (*policyFile, error) {
	f := &policyFile{name: name}
	var err error
	if f.src, err = readFile(name); err != nil {
		return nil, err
	}
	f.doc, f.report = policy.Parse(f.src)
	if t.NoTests && t.Tests != "" {
		return nil, problemsError("--tests and --no-tests: only one of them may be given")
	}
	if t.NoTests {
		return f, nil
	}
	f.testsName = t.Tests
	if f.testsName == "" {
		f.testsName = testsBeside(name)
	}
	f.tests, err = readFile(f.testsName)
	if errors.Is(err, fs.ErrNotExist) && t.Tests == "" || f.testsName == "" {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	if f.tests == nil {
		f.tests = []byte{}
	}
	f.readTests()
	return f, nil
}

func (f *policyFile) readTests() {
	f.suite, f.testsReport = scenario.Parse(f.tests)
	if f.suite == nil || f.doc == nil {
		return
	}
	more := f.suite.Check(f.doc)
	f.testsReport.Problems = append(f.testsReport.Problems, more.Problems...)
	f.testsReport.Warnings = append(f.testsReport.Warnings, more.Warnings...)
}

// ok reports whether neither the document nor its tests have problems.
func (f *policyFile) ok() bool { return f.report.OK() && f.testsReport.OK() }

// print tells what is wrong with document and tests.
func (f *policyFile) print(w io.Writer) {
	printProblems(w, f.name, f.report)
	printProblems(w, f.testsName, f.testsReport)
}

// err is nil without problems.
func (f *policyFile) err() error {
	if f.ok() {
		return nil
	}
	return problemsError("%s has %s", f.name, counted(len(f.report.Problems)+len(f.testsReport.Problems), "problem"))
}

// testsBeside is the file with the tests of a document: policy.tests.yaml beside
// policy.yaml. There is none beside standard input.
func testsBeside(name string) string {
	if name == standardInput {
		return ""
	}
	ext := filepath.Ext(name)
	return strings.TrimSuffix(name, ext) + ".tests" + ext
}

// origin is where a file's content came from. It is noted in a comment at its top,
// so that it travels with the file through a repository.
type origin struct {
	base  int64  // version, 0 for none
	draft string // drf_…, "" for none
	etag  string // of that draft
	known bool
}

var originLine = regexp.MustCompile(`(?m)^# headgate: base v(\d{1,18})(?: draft (drf_[a-z0-9]{1,40})@([a-z0-9]{1,64}))?[ \t]*\r?$`)

// originOf reads the note at the top of a file, among its first comments.
func originOf(src []byte) (o origin) {
	top := commentsOf(src)
	m := originLine.FindSubmatch(top)
	if m == nil {
		return o
	}
	base, err := strconv.ParseInt(string(m[1]), 10, 64)
	return origin{base: base, draft: string(m[2]), etag: string(m[3]), known: err == nil}
}

// commentsOf is the comments that a file begins with.
func commentsOf(src []byte) []byte {
	end := 0
	for line := range bytes.Lines(src) {
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 && trimmed[0] != '#' {
			break
		}
		end += len(line)
	}
	return src[:end]
}

// noted is src with its note, in the place of an earlier one.
func (o origin) noted(src []byte) []byte {
	note := fmt.Sprintf("# headgate: base v%d", o.base)
	if o.draft != "" {
		note += " draft " + o.draft + "@" + o.etag
	}
	top := commentsOf(src)
	if at := originLine.FindIndex(top); at != nil {
		return append(append(append([]byte{}, src[:at[0]]...), note...), src[at[1]:]...)
	}
	return append([]byte(note+"\n"), src...)
}

// withoutNote is src without its note, for a console that has better ones.
func withoutNote(src []byte) []byte {
	at := originLine.FindIndex(commentsOf(src))
	if at == nil {
		return src
	}
	return append(append([]byte{}, src[:at[0]]...), bytes.TrimPrefix(src[at[1]:], []byte("\n"))...)
}

// note writes the note into a file that can hold one: JSON has no comments, and
// standard input is no file. It reports whether it did.
func (o origin) note(name string, src []byte) (bool, error) {
	if name == standardInput || bytes.HasPrefix(bytes.TrimLeft(src, "\ufeff \t\r\n"), []byte("{")) {
		return false, nil
	}
	return true, replaceFile(name, o.noted(src))
}

// replaceFile writes a file whole or not at all, with the mode that it had.
func replaceFile(name string, content []byte) error {
	mode := os.FileMode(0o644)
	if st, err := os.Stat(name); err == nil {
		mode = st.Mode().Perm()
	}
	temp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = temp.Write(content)
	err = errors.Join(err, temp.Chmod(mode), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), name)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
