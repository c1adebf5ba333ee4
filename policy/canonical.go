package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Canonical is the document's canonical JSON: keys sorted by their bytes, no
// spaces, defaults filled in, one spelling of each value. Two documents that
// mean the same have the same bytes. These bytes are hashed and signed, and Parse
// of them gives a document with the same bytes.
func (d *Document) Canonical() []byte {
	var b bytes.Buffer
	writeCanonical(&b, encodeDocument(d.withDefaults()))
	return b.Bytes()
}

// JSON is the canonical JSON with line ends and indentation, for people.
func (d *Document) JSON() []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, d.Canonical(), "", "  "); err != nil {
		return d.Canonical() // cannot be: canonical bytes are valid JSON
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// YAML says the same as Canonical in YAML, with the fields in the order in which
// the types name them.
func (d *Document) YAML() []byte {
	root := encodeDocument(d.withDefaults())
	if out, ok := writeYAML(root); ok {
		return out
	}
	out, err := libraryYAML(root)
	if err != nil {
		return d.JSON() // cannot be for valid UTF-8; JSON is YAML too
	}
	return out
}

// libraryYAML has the YAML library write a tree.
func libraryYAML(root *node) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(yamlOf(root)); err != nil {
		return nil, err
	}
	return b.Bytes(), enc.Close()
}

func writeCanonical(b *bytes.Buffer, n *node) {
	switch n.kind {
	case kindMap:
		order := make([]int, len(n.keys))
		for i := range order {
			order[i] = i
		}
		sort.Slice(order, func(i, j int) bool { return n.keys[order[i]].text < n.keys[order[j]].text })
		b.WriteByte('{')
		for i, at := range order {
			if i > 0 {
				b.WriteByte(',')
			}
			writeText(b, n.keys[at].text)
			b.WriteByte(':')
			writeCanonical(b, n.items[at])
		}
		b.WriteByte('}')
	case kindList:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			writeCanonical(b, item)
		}
		b.WriteByte(']')
	case kindText:
		writeText(b, n.text)
	default:
		b.WriteString(n.text)
	}
}

// writeText quotes a string with the fewest escapes that JSON allows (RFC 8785
// has the same rule), so that the bytes do not hang on a library's taste.
func writeText(b *bytes.Buffer, s string) {
	b.WriteByte('"')
	for _, c := range strings.ToValidUTF8(s, "\ufffd") {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < 0x20:
			fmt.Fprintf(b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
}

func yamlOf(n *node) *yaml.Node {
	switch n.kind {
	case kindMap:
		y := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for i, k := range n.keys {
			y.Content = append(y.Content, yamlText(k.text), yamlOf(n.items[i]))
		}
		return y
	case kindList:
		y := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, item := range n.items {
			if item.kind == kindText {
				y.Style = yaml.FlowStyle
			}
			y.Content = append(y.Content, yamlOf(item))
		}
		return y
	case kindInt:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: n.text}
	default: // a document has no other kinds
		return yamlText(n.text)
	}
}

func yamlText(s string) *yaml.Node {
	y := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if strings.ContainsAny(s, "\n\t") || strings.TrimSpace(s) != s || s == "" {
		y.Style = yaml.DoubleQuotedStyle // block styles would bend the white space
	}
	return y
}
