package importer

import (
	"bytes"
	"encoding/json"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// maxValues bounds maps, lists and scalars of JSON together.
const maxValues = 1_000_000

// jsonReader builds the tree of valid JSON: the YAML parser does not read all of it.
type jsonReader struct {
	src    []byte
	dec    *json.Decoder
	offset int64 // up to which lines are counted
	line   int
	values int
}

func readJSON(src []byte) (*yaml.Node, error) {
	r := &jsonReader{src: src, dec: json.NewDecoder(bytes.NewReader(src)), line: 1}
	r.dec.UseNumber()
	return r.value(0)
}

func (r *jsonReader) here() int {
	offset := min(r.dec.InputOffset(), int64(len(r.src)))
	r.line += bytes.Count(r.src[r.offset:offset], []byte{'\n'})
	r.offset = offset
	return r.line
}

func (r *jsonReader) value(depth int) (*yaml.Node, error) {
	t, err := r.dec.Token()
	if err != nil {
		return nil, problem("", r.here(), "is not valid JSON: %s", clip(err.Error()))
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: r.here()}
	if r.values++; r.values > maxValues {
		return nil, problem("", n.Line, "holds more than %d values, the most that can be read", maxValues)
	}
	switch t := t.(type) {
	case json.Delim:
		if depth >= maxDepth {
			return nil, problem("", n.Line, "lies deeper than %d levels, the most allowed", maxDepth)
		}
		return n, r.inside(n, t, depth)
	case json.Number:
		n.Tag, n.Value = "!!float", t.String()
		if _, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			n.Tag = "!!int"
		}
	case string:
		n.Tag, n.Value = "!!str", t
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(t)
	case nil:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, nil
}

func (r *jsonReader) inside(n *yaml.Node, open json.Delim, depth int) error {
	n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
	if open == '{' {
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
	}
	for r.dec.More() {
		v, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.Content = append(n.Content, v)
	}
	_, err := r.dec.Token() // the closing bracket: the whole is known to be valid
	return err
}
