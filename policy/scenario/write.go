package scenario

import (
	"bytes"
	"time"

	"go.yaml.in/yaml/v3"
)

// The file as it is written. Field order is that of a person's telling.
type (
	suiteFile struct {
		Tests []testFile `yaml:"tests"`
	}
	testFile struct {
		Name        string     `yaml:"name"`
		Description string     `yaml:"description,omitempty"`
		Given       callerFile `yaml:"given,omitempty,flow"`
		Steps       []stepFile `yaml:"steps"`
	}
	callerFile struct {
		Tenant string `yaml:"tenant,omitempty"`
		Plan   string `yaml:"plan,omitempty"`
		IP     string `yaml:"ip,omitempty"`
		User   string `yaml:"user,omitempty"`
	}
	stepFile struct {
		After   string            `yaml:"after,omitempty"`
		Send    int64             `yaml:"send"`
		In      string            `yaml:"in,omitempty"`
		Request string            `yaml:"request"`
		Lasts   string            `yaml:"lasts,omitempty"`
		Cost    int64             `yaml:"cost,omitempty"`
		Headers map[string]string `yaml:"headers,omitempty,flow"`
		Body    map[string]string `yaml:"body,omitempty,flow"`
		Query   string            `yaml:"query,omitempty"`
		Expect  any               `yaml:"expect"`
	}
	expectFile struct {
		RefusedBy string `yaml:"refused_by,omitempty"`
		At        int64  `yaml:"at,omitempty"`
		Route     string `yaml:"route,omitempty"`
		RetryIn   string `yaml:"retry_in,omitempty"`
	}
)

// YAML is the suite as a file. Parse reads it back as the same suite, if the suite
// was one that Parse made.
func (s *Suite) YAML() []byte {
	file := suiteFile{Tests: make([]testFile, len(s.Tests))}
	for i, t := range s.Tests {
		steps := make([]stepFile, len(t.Steps))
		for j := range t.Steps {
			steps[j] = fileOf(&t.Steps[j])
		}
		file.Tests[i] = testFile{t.Name, t.Description, callerFile(t.Given), steps}
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	_ = enc.Encode(file) // plain values into memory: it cannot fail
	_ = enc.Close()
	return out.Bytes()
}

func fileOf(s *Step) stepFile {
	f := stepFile{
		After: spanText(s.After), Send: s.Send, In: spanText(s.In), Request: s.Request, Lasts: spanText(s.Lasts), Cost: s.Cost,
		Headers: s.Headers, Body: s.Body, Query: s.Query, Expect: admitted,
	}
	if e := s.Expect; e != (Expect{}) {
		f.Expect = flowed{expectFile{e.RefusedBy, e.At, e.Route, spanText(e.RetryIn)}}
	}
	return f
}

// flowed is an expectation on one line.
type flowed struct{ expectFile }

// MarshalYAML writes the map in braces.
func (f flowed) MarshalYAML() (any, error) {
	var n yaml.Node
	if err := n.Encode(f.expectFile); err != nil {
		return nil, err
	}
	n.Style = yaml.FlowStyle
	return &n, nil
}

// spanText is a duration as Parse reads it; "" for none.
func spanText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
