package importer

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/headgate/headgate/policy"
)

func (r *envoyReader) wrong(path string, line int, format string, args ...any) {
	const most = 200
	if len(r.problems) < most {
		r.problems = append(r.problems, policy.Problem{Path: path, Line: line, Message: fmt.Sprintf(format, args...)})
	}
}

// fields reads a map. A field that is not known is noted, and one that is there
// twice is a problem.
func (r *envoyReader) fields(path string, n *yaml.Node, reads map[string]func(path string, n *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.wrong(path, n.Line, "must be a map")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		at := strings.TrimPrefix(path+"."+clip(k.Value), ".")
		switch read := reads[k.Value]; {
		case seen[k.Value]:
			r.wrong(at, k.Line, "is there twice")
		case read == nil:
			r.do(at, k.Line, "is not known here and was left out")
		case v.Kind == yaml.ScalarNode && v.ShortTag() == "!!null":
			r.say(at, k.Line, "is empty")
		default:
			read(at, v)
		}
		seen[k.Value] = true
	}
}

func (r *envoyReader) text(path string, n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		r.wrong(path, n.Line, "must be text")
		return ""
	}
	return n.Value
}

func (r *envoyReader) yes(path string, n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		r.wrong(path, n.Line, "must be true or false")
		return false
	}
	return strings.EqualFold(n.Value, "true")
}
