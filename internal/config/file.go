package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// File is a configuration file for the flag parser: one JSON object, the names
// being those of the flags without their dashes, the values strings, numbers,
// booleans or lists of strings. A name that no command has is an error, so that
// a typing mistake is not a setting left out. Flags and the environment win.
func File(r io.Reader) (kong.Resolver, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxSecret+1))
	if err != nil {
		return nil, fmt.Errorf("read configuration file: %w", err)
	}
	if len(b) > maxSecret {
		return nil, fmt.Errorf("configuration file is larger than %d bytes", maxSecret)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var raw map[string]any
	if err := d.Decode(&raw); err != nil {
		return nil, fmt.Errorf("configuration file is not a JSON object: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("configuration file holds more than one JSON object")
	}
	values := make(fileValues, len(raw))
	for name, v := range raw {
		text, err := flatten(v)
		if err != nil {
			return nil, fmt.Errorf("configuration file: %s: %w", name, err)
		}
		values[name] = text
	}
	return values, nil
}

// fileValues are flag values in the text form that the command line has.
type fileValues map[string]string

// flatten turns a JSON value into the text that a flag takes.
func flatten(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool, json.Number:
		return fmt.Sprint(v), nil
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			s, ok := e.(string)
			if !ok || strings.Contains(s, ",") {
				return "", fmt.Errorf("element %d is not a string without commas", i)
			}
			parts[i] = s
		}
		return strings.Join(parts, ","), nil
	default:
		return "", errors.New("is neither a string, a number, a boolean nor a list of strings")
	}
}

// Validate refuses names that no command has as a flag.
func (f fileValues) Validate(app *kong.Application) error {
	known := map[string]bool{}
	collect(app.Node, known)
	var unknown []string
	for name := range f {
		if !known[name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return fmt.Errorf("configuration file: unknown settings %s", strings.Join(unknown, ", "))
	}
	return nil
}

func collect(n *kong.Node, known map[string]bool) {
	for _, f := range n.Flags {
		known[f.Name] = true
	}
	for _, c := range n.Children {
		collect(c, known)
	}
}

// Resolve gives the file's value of a flag, or nil.
func (f fileValues) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if v, ok := f[flag.Name]; ok {
		return v, nil
	}
	return nil, nil
}
