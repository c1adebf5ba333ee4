package policy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a document's source. Work is bounded by counting, not by a clock,
// so that a document has the same verdict on every machine.
const (
	// MaxSourceBytes is the largest document, in bytes.
	MaxSourceBytes = 8 << 20
	// maxDepth bounds how deep maps and lists lie in each other.
	maxDepth = 32
	// maxValues bounds maps, lists and scalars together.
	maxValues = 400_000
	// maxFields bounds the fields of one map, and maxItems the items of one list.
	maxFields = maxPlans + 100
	maxItems  = maxRoutes + 100
	// maxText bounds a text, in bytes.
	maxText = 1000
	// maxProblems is how many problems (and warnings) are told; the rest is counted.
	maxProblems = 200
)

type nodeKind uint8

const (
	kindNull nodeKind = iota
	kindBool
	kindInt // plain decimal digits, perhaps with a minus sign
	kindNumber
	kindText
	kindList
	kindMap
)

func (k nodeKind) String() string {
	return [...]string{"nothing", "true or false", "a whole number", "a number", "text", "a list", "a map"}[k]
}

// node is a value of the source, the same for YAML and JSON.
type node struct {
	kind  nodeKind
	line  int
	text  string  // of a scalar
	keys  []key   // of a map, in the order of the source
	items []*node // of a list, or the values of a map
}

type key struct {
	text string
	line int
}

// sourceError is a problem that ends the reading of a source.
type sourceError struct{ problem Problem }

func (e *sourceError) Error() string { return e.problem.String() }

func sourceErrorf(path string, line int, format string, args ...any) *sourceError {
	return &sourceError{Problem{Path: path, Line: line, Message: fmt.Sprintf(format, args...)}}
}

// readSource makes the tree of a document in YAML or JSON. What is cheap to
// refuse is refused before anything is parsed.
func readSource(src []byte) (*node, error) {
	if len(src) > MaxSourceBytes {
		return nil, sourceErrorf("", 0, "is %d bytes long: the largest allowed is %d (8 MiB)", len(src), MaxSourceBytes)
	}
	if !utf8.Valid(src) {
		return nil, sourceErrorf("", lineOfBadUTF8(src), "is not valid UTF-8")
	}
	trimmed := strings.TrimLeft(string(src[:min(len(src), 4096)]), "\ufeff \t\r\n")
	if strings.HasPrefix(trimmed, "{") {
		return readJSON(src)
	}
	return readYAML(src)
}

func lineOfBadUTF8(src []byte) int {
	line := 1
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		if r == '\n' {
			line++
		}
		i += size
	}
	return line
}

// lineAt is the line of the value at a path, or of the nearest one around it.
func (n *node) lineAt(path string) int {
	line := n.line
	for rest := path; rest != ""; {
		var step string
		step, rest = cutStep(rest)
		next, nextLine := n.child(step)
		if next == nil {
			break
		}
		n, line = next, nextLine
	}
	return line
}

func (n *node) child(step string) (*node, int) {
	if n.kind == kindList {
		i, err := strconv.Atoi(strings.Trim(step, "[]"))
		if err != nil || i < 0 || i >= len(n.items) {
			return nil, 0
		}
		return n.items[i], n.items[i].line
	}
	for i, k := range n.keys {
		if k.text == step {
			return n.items[i], k.line
		}
	}
	return nil, 0
}

// cutStep takes the first step off a path: "routes", "[3]", "limits".
func cutStep(path string) (step, rest string) {
	path = strings.TrimPrefix(path, ".")
	from := 0
	if strings.HasPrefix(path, "[") {
		from = 1
	}
	if i := strings.IndexAny(path[from:], ".["); i >= 0 {
		return path[:from+i], path[from+i:]
	}
	return path, ""
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func field(path, name string) string {
	if path == "" {
		return clip(name)
	}
	return path + "." + clip(name)
}

// parent is the path of the map or list around a path; "" is the document.
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}
