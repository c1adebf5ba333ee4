package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// largeBody is the size from which bodies are read one at a time, in bytes.
const largeBody = 256 << 10

// unmarshal is unmarshal with one large body at a time: reading one costs memory.
func (a *API) unmarshal(data []byte, v any) error {
	if len(data) >= largeBody {
		a.large <- struct{}{}
		defer func() { <-a.large }()
	}
	return unmarshal(data, v)
}

// unmarshal reads a body. The framework calls it twice: first into any, to
// check it against the schema, which is where duplicate members are refused.
func unmarshal(data []byte, v any) error {
	generic, ok := v.(*any)
	if !ok {
		return json.Unmarshal(data, v)
	}
	if !utf8.Valid(data) {
		return errors.New("not JSON: it is not valid UTF-8")
	}
	if err := noDuplicates(data); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := decodeGeneric(dec, generic); err != nil {
		return plainJSONError(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after the JSON value")
	}
	return nil
}

// decodeGeneric decodes for the schema's check. A document is only said to be
// an object, a text or something else: as values it would take many times the
// memory of its text, before anything has looked whether it is a policy.
func decodeGeneric(dec *json.Decoder, v *any) error {
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	if raw[0] != '{' {
		return json.Unmarshal(raw, v)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	out := make(map[string]any, len(members))
	for name, member := range members {
		if own(name) {
			out[name] = kindOf(member)
			continue
		}
		if len(member) > maxMember {
			return fmt.Errorf("the member %q is larger than 64 KiB", name)
		}
		var value any
		if err := json.Unmarshal(member, &value); err != nil {
			return err
		}
		out[name] = value
	}
	*v = out
	return nil
}

// own reports whether a member is read by a parser of its own, which is strict,
// bounded and says where: a policy document or a suite of tests.
func own(member string) bool { return member == "document" || member == "tests" }

// kindOf stands in for a document.
func kindOf(raw json.RawMessage) any {
	switch {
	case raw[0] == '{':
		return map[string]any{}
	case string(raw) == `""`:
		return ""
	case raw[0] == '"':
		return "text"
	}
	return nil
}

func plainJSONError(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("not JSON at byte %d: %w", syntax.Offset, err)
	}
	return fmt.Errorf("not JSON: %w", err)
}

// Bounds of a body, apart from the document and the tests in it.
const (
	maxDepth   = 64
	maxMembers = 1000     // of one object or array
	maxMember  = 64 << 10 // bytes of one member
)

// noDuplicates refuses a body in which an object names a member twice, or in
// other letters than it has. A policy document and tests are left out: their own parsers do this and say where.
func noDuplicates(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return walk(dec, 0, "")
}

func walk(dec *json.Decoder, depth int, path string) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d", maxDepth)
	}
	token, err := dec.Token()
	if err != nil {
		return plainJSONError(err)
	}
	open, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for i := 0; dec.More(); i++ {
		if i == maxMembers {
			return fmt.Errorf("more than %d values in one place", maxMembers)
		}
		inner := path + "[" + strconv.Itoa(i) + "]"
		if open == '{' {
			name, err := dec.Token()
			if err != nil {
				return plainJSONError(err)
			}
			member, _ := name.(string) // a decoder gives nothing else here
			inner = path + "." + member
			if path == "" {
				inner = member
			}
			if member != strings.ToLower(member) { // encoding/json would take Name for name
				return fmt.Errorf("the member %q is not a field here: names are lower case", inner)
			}
			if seen[member] {
				return fmt.Errorf("the member %q is given more than once", inner)
			}
			seen[member] = true
		}
		if own(inner) {
			var skip json.RawMessage
			if err := dec.Decode(&skip); err != nil {
				return plainJSONError(err)
			}
			continue
		}
		if err := walk(dec, depth+1, inner); err != nil {
			return err
		}
	}
	_, err = dec.Token() // the closing one
	return err
}

// Document is a policy document in a request: a JSON object, or its YAML (or
// JSON) as a string.
type Document struct{ source []byte }

// UnmarshalJSON keeps an object as it is and unpacks a string.
func (d *Document) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	if len(b) > 0 && b[0] == '"' {
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return fmt.Errorf("read document: %w", err)
		}
		d.source = []byte(text)
		return nil
	}
	d.source = bytes.Clone(b)
	return nil
}

// Schema implements huma.SchemaProvider.
func (Document) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Description: "Policy document: a JSON object, or YAML as a string",
		OneOf: []*huma.Schema{{Type: huma.TypeObject, AdditionalProperties: true}, {Type: huma.TypeString, MinLength: new(1)}}}
}

// Tests is a suite of policy tests in a request: a JSON object, or its YAML (or
// JSON) as a string, "" for no tests.
type Tests struct{ source []byte }

// UnmarshalJSON keeps an object as it is and unpacks a string.
func (s *Tests) UnmarshalJSON(b []byte) error {
	var d Document
	if err := d.UnmarshalJSON(b); err != nil {
		return err
	}
	s.source = d.source
	if s.source == nil {
		s.source = []byte{} // nil would mean "those in force"
	}
	return nil
}

// Schema implements huma.SchemaProvider.
func (Tests) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Description: "Policy tests: a JSON object, or YAML as a string",
		OneOf: []*huma.Schema{{Type: huma.TypeObject, AdditionalProperties: true}, {Type: huma.TypeString}}}
}

// of is the source of tests that may have been left out: nil then.
func (s *Tests) of() []byte {
	if s == nil {
		return nil
	}
	return s.source
}
