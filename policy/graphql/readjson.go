package graphql

import (
	"bytes"
	"encoding/json"
)

// jsonReader reads JSON within bounds. A member that stands twice in an object is
// refused: readers disagree on which of the two holds.
type jsonReader struct {
	dec    *json.Decoder
	values int
}

func readJSON(src []byte) (any, error) {
	if !json.Valid(src) {
		return nil, refuse(ErrSyntax, "the request is not valid JSON")
	}
	r := &jsonReader{dec: json.NewDecoder(bytes.NewReader(src))}
	r.dec.UseNumber()
	return r.value(0)
}

func (r *jsonReader) token() (json.Token, error) {
	t, err := r.dec.Token()
	if err != nil {
		return nil, refuse(ErrSyntax, "the request is not valid JSON")
	}
	return t, nil
}

func (r *jsonReader) value(depth int) (any, error) {
	t, err := r.token()
	if err != nil {
		return nil, err
	}
	if r.values++; r.values > maxValues {
		return nil, refuse(ErrTooComplex, "the JSON holds more than %d values, the most allowed", maxValues)
	}
	delim, ok := t.(json.Delim)
	if !ok {
		return t, nil
	}
	if depth >= maxNesting {
		return nil, refuse(ErrTooComplex, "the JSON nests deeper than %d levels, the most allowed", maxNesting)
	}
	if delim == '{' {
		return r.object(depth + 1)
	}
	return r.array(depth + 1)
}

func (r *jsonReader) object(depth int) (any, error) {
	out := map[string]any{}
	for r.dec.More() {
		t, err := r.token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string)
		if _, twice := out[name]; twice {
			return nil, refuse(ErrSyntax, "the JSON has the member %q twice", shown(name))
		}
		if out[name], err = r.value(depth); err != nil {
			return nil, err
		}
	}
	_, err := r.token()
	return out, err
}

func (r *jsonReader) array(depth int) (any, error) {
	out := []any{}
	for r.dec.More() {
		one, err := r.value(depth)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	_, err := r.token()
	return out, err
}
