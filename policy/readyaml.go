package policy

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// maxYAMLMarks bounds line ends, colons, commas and opening brackets: no YAML
// document has more values than those, so a bomb is refused before it is parsed.
const maxYAMLMarks = 600_000

var yamlErrorLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(.*)`)

// readYAML makes the tree of a YAML document. Aliases are never followed.
func readYAML(src []byte) (*node, error) {
	marks := 0
	for _, c := range src {
		switch c {
		case '\n', ':', ',', '[', '{', '-':
			marks++
		}
	}
	if marks > maxYAMLMarks {
		return nil, sourceErrorf("", 0, "holds %d line ends, colons, commas, brackets and dashes, and at most %d can be read as YAML: write it as JSON, or shorter", marks, maxYAMLMarks)
	}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, sourceErrorf("", 1, "is empty")
		}
		return nil, yamlProblem(err)
	}
	r := &yamlReader{}
	root, err := r.value(doc.Content[0], "", 0)
	if err != nil {
		return nil, err
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, yamlProblem(err)
		}
		return nil, sourceErrorf("", second.Line, "holds a second document: there must be one")
	}
	return root, nil
}

func yamlProblem(err error) error {
	m := yamlErrorLine.FindStringSubmatch(err.Error())
	line, _ := strconv.Atoi(m[1]) // 0 when the parser names no line
	return sourceErrorf("", line, "is not valid YAML: %s", clip(m[2]))
}

type yamlReader struct{ values int }

func (r *yamlReader) value(y *yaml.Node, path string, depth int) (*node, error) {
	n := &node{line: y.Line}
	if r.values++; r.values > maxValues {
		return nil, sourceErrorf(path, y.Line, "holds more than %d values, the most allowed", maxValues)
	}
	switch {
	case y.Kind == yaml.AliasNode:
		return nil, sourceErrorf(path, y.Line, "uses the alias *%s: aliases are not allowed", clip(y.Value))
	case y.Anchor != "":
		return nil, sourceErrorf(path, y.Line, "has the anchor &%s: anchors are not allowed", clip(y.Anchor))
	case y.Style&yaml.TaggedStyle != 0:
		return nil, sourceErrorf(path, y.Line, "has the tag %s: tags are not allowed", clip(y.Tag))
	case y.Kind == yaml.ScalarNode:
		n.kind, n.text = yamlKind(y), y.Value
		return n, nil
	case y.Kind == yaml.MappingNode && len(y.Content) > 2*maxFields:
		return nil, sourceErrorf(path, y.Line, "has %d fields: at most %d are allowed", len(y.Content)/2, maxFields)
	case len(y.Content) > maxItems:
		return nil, sourceErrorf(path, y.Line, "has %d items: at most %d are allowed", len(y.Content), maxItems)
	case depth >= maxDepth:
		return nil, sourceErrorf(path, y.Line, "lies deeper than %d levels, the most allowed", maxDepth)
	case y.Kind == yaml.SequenceNode:
		n.kind = kindList
		return n, r.list(n, y, path, depth)
	}
	n.kind = kindMap
	return n, r.fields(n, y, path, depth)
}

func (r *yamlReader) list(n *node, y *yaml.Node, path string, depth int) error {
	n.items = make([]*node, 0, len(y.Content))
	for i, item := range y.Content {
		v, err := r.value(item, index(path, i), depth+1)
		if err != nil {
			return err
		}
		n.items = append(n.items, v)
	}
	return nil
}

func (r *yamlReader) fields(n *node, y *yaml.Node, path string, depth int) error {
	n.keys = make([]key, 0, len(y.Content)/2)
	n.items = make([]*node, 0, len(y.Content)/2)
	for i := 0; i+1 < len(y.Content); i += 2 {
		k := y.Content[i]
		switch {
		case k.Kind == yaml.AliasNode || k.Anchor != "" || k.Style&yaml.TaggedStyle != 0:
			return sourceErrorf(path, k.Line, "has a field name with an anchor, alias or tag: they are not allowed")
		case k.ShortTag() == "!!merge":
			return sourceErrorf(path, k.Line, "has a merge key (<<): merge keys are not allowed")
		case k.Kind != yaml.ScalarNode:
			return sourceErrorf(path, k.Line, "has a field name that is not text")
		}
		v, err := r.value(y.Content[i+1], field(path, k.Value), depth+1)
		if err != nil {
			return err
		}
		n.keys = append(n.keys, key{k.Value, k.Line})
		n.items = append(n.items, v)
	}
	return nil
}

func yamlKind(y *yaml.Node) nodeKind {
	switch y.ShortTag() {
	case "!!null":
		return kindNull
	case "!!bool":
		return kindBool
	case "!!int", "!!float":
		return numberKind(y.Value)
	}
	return kindText
}
