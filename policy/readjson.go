package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
)

// jsonReader builds a tree from the tokens of a JSON document.
type jsonReader struct {
	src    []byte
	dec    *json.Decoder
	offset int64 // up to which lines are counted
	line   int
}

func readJSON(src []byte) (*node, error) {
	src = bytes.TrimPrefix(src, []byte("\ufeff"))
	if n := countValues(src, false); n > maxValues {
		return nil, sourceErrorf("", 0, "holds %d values: at most %d are allowed", n, maxValues)
	}
	r := &jsonReader{src: src, dec: json.NewDecoder(bytes.NewReader(src)), line: 1}
	r.dec.UseNumber()
	root, err := r.value("", 0)
	if err != nil {
		return nil, err
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, sourceErrorf("", r.lineHere(), "has something after the end of the JSON object")
	}
	return root, nil
}

// lineHere is the line of the token that was read last.
func (r *jsonReader) lineHere() int { return r.lineTo(r.dec.InputOffset()) }

func (r *jsonReader) lineTo(offset int64) int {
	offset = min(offset, int64(len(r.src)))
	if offset > r.offset {
		r.line += bytes.Count(r.src[r.offset:offset], []byte{'\n'})
		r.offset = offset
	}
	return r.line
}

func (r *jsonReader) token(path string) (json.Token, error) {
	t, err := r.dec.Token()
	if err == nil {
		return t, nil
	}
	line := r.lineHere()
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		if syntax.Offset <= int64(len(r.src)) {
			line = r.lineTo(syntax.Offset)
		}
		return nil, sourceErrorf(path, line, "is not valid JSON: %s", clip(strings.TrimPrefix(syntax.Error(), "json: ")))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, sourceErrorf(path, r.lineTo(int64(len(r.src))), "is not valid JSON: it ends too early")
	}
	return nil, sourceErrorf(path, line, "is not valid JSON")
}

func (r *jsonReader) value(path string, depth int) (*node, error) {
	t, err := r.token(path)
	if err != nil {
		return nil, err
	}
	n := &node{line: r.lineHere()}
	switch t := t.(type) {
	case json.Delim:
		if depth >= maxDepth {
			return nil, sourceErrorf(path, n.line, "lies deeper than %d levels, the most allowed", maxDepth)
		}
		if t == '{' {
			n.kind = kindMap
			return n, r.object(n, path, depth)
		}
		n.kind = kindList
		return n, r.array(n, path, depth)
	case json.Number:
		n.kind, n.text = numberKind(t.String()), t.String()
	case string:
		n.kind, n.text = kindText, t
	case bool:
		n.kind, n.text = kindBool, strconv.FormatBool(t)
	case nil:
		n.text = "null"
	}
	return n, nil
}

func (r *jsonReader) object(n *node, path string, depth int) error {
	for r.dec.More() {
		if len(n.keys) == maxFields {
			return sourceErrorf(path, r.lineHere(), "has %d fields: at most %d are allowed", maxFields+r.countRest(), maxFields)
		}
		t, err := r.token(path)
		if err != nil {
			return err
		}
		name, ok := t.(string)
		if !ok {
			return sourceErrorf(path, r.lineHere(), "is not valid JSON: a field must have a name in quotes")
		}
		n.keys = append(n.keys, key{name, r.lineHere()})
		v, err := r.value(field(path, name), depth+1)
		if err != nil {
			return err
		}
		n.items = append(n.items, v)
	}
	_, err := r.token(path)
	return err
}

func (r *jsonReader) array(n *node, path string, depth int) error {
	for r.dec.More() {
		if len(n.items) == maxItems {
			return sourceErrorf(path, r.lineHere(), "has %d items: at most %d are allowed", maxItems+r.countRest(), maxItems)
		}
		v, err := r.value(index(path, len(n.items)), depth+1)
		if err != nil {
			return err
		}
		n.items = append(n.items, v)
	}
	_, err := r.token(path)
	return err
}

// countRest counts what is left of the list or map that is being read.
func (r *jsonReader) countRest() int { return countValues(r.src[r.dec.InputOffset():], true) }

// countValues counts the values of JSON without reading them: the first one and
// one for each comma, and the values in lists and maps unless flat is set, in which
// case it stops at the end of what is open. A bomb is so refused before it is parsed.
func countValues(src []byte, flat bool) int {
	n, depth, quoted, empty := 0, 0, false, true
	if !flat {
		n = 1
	}
	for i := 0; i < len(src); i++ {
		c := src[i]
		switch {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted, empty = !quoted, false
		case quoted, c == ' ', c == '\n', c == '\r', c == '\t':
		case c == '[', c == '{':
			depth, empty = depth+1, true
		case c == ']', c == '}':
			if depth--; depth < 0 && flat {
				return n
			}
			if !empty && !flat {
				n++ // the first value of a list or map that has any
			}
			empty = false
		case c == ',' && (!flat || depth == 0):
			n++
		default:
			empty = false
		}
	}
	return n
}

// numberKind tells whole numbers in plain digits from all others: 1e3, 1.0,
// 0x10, 010 and 1_000 mean different things to different programs.
func numberKind(s string) nodeKind {
	if plainDecimal(strings.TrimPrefix(s, "-")) {
		return kindInt
	}
	return kindNumber
}
