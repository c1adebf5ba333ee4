package graphql

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
)

// values knows what arguments of an operation stand for.
type values struct {
	p           *Pricer
	definitions map[string]*ast.VariableDefinition
	given       map[string]any
	sizes       map[string]sizes // of variables that were looked at
}

// sizes are what a variable says about the size of a list.
type sizes struct {
	itself  int64 // the value as a size
	members int64 // the largest size among its members; 0: it has none
}

// variable is the value of a variable: what the request gives, or a literal that
// is its default. Both are nil when it has none, is null, or is not defined, which
// no upstream takes.
func (v *values) variable(name string) (given any, fallback *ast.Value) {
	d := v.definitions[name]
	if d == nil {
		return nil, nil
	}
	if given, ok := v.given[name]; ok {
		return given, nil
	}
	return nil, d.DefaultValue
}

// leavesOut reports whether @skip or @include certainly take a selection out. A
// condition that is not known to be true or false is counted as if the selection
// were made.
func (v *values) leavesOut(directives ast.DirectiveList) (bool, error) {
	var seen [2]bool
	out := false
	for _, d := range directives {
		if d.Name != "skip" && d.Name != "include" {
			continue
		}
		i := 0
		if d.Name == "include" {
			i = 1
		}
		if seen[i] {
			return false, refuse(ErrSyntax, "a selection has @%s twice", d.Name)
		}
		seen[i] = true
		if len(d.Arguments) != 1 || d.Arguments[0].Name != "if" {
			return false, refuse(ErrSyntax, "@%s takes the argument \"if\" and no other", d.Name)
		}
		if is, known := v.boolean(d.Arguments[0].Value); known {
			out = out || is == (d.Name == "skip")
		}
	}
	return out, nil
}

func (v *values) boolean(value *ast.Value) (is, known bool) {
	if value.Kind == ast.Variable {
		given, fallback := v.variable(value.Raw)
		if fallback == nil {
			is, known = given.(bool)
			return is, known
		}
		value = fallback
	}
	return value.Raw == "true", value.Kind == ast.BooleanValue
}

// listSize is the number of entries that arguments ask for: the largest of those
// that tell a size, also inside input objects. 0: none does.
func (v *values) listSize(arguments ast.ArgumentList) (int64, error) {
	var size int64
	var seen map[string]bool
	if len(arguments) > 1 {
		seen = make(map[string]bool, len(arguments))
	}
	for _, a := range arguments {
		if seen[a.Name] {
			return 0, refuse(ErrSyntax, "argument %q is given twice", shown(a.Name))
		}
		if seen != nil {
			seen[a.Name] = true
		}
		size = max(size, v.named(a.Name, a.Value))
	}
	return size, nil
}

// named is the size that a value with a name tells, 0 for none.
func (v *values) named(name string, value *ast.Value) int64 {
	if v.p.list[name] {
		return v.itself(value)
	}
	return v.members(value)
}

// members is the largest size that is told inside a value, 0 for none.
func (v *values) members(value *ast.Value) int64 {
	var size int64
	switch value.Kind {
	case ast.Variable:
		return v.ofVariable(value.Raw).members
	case ast.ListValue, ast.ObjectValue:
		for _, child := range value.Children {
			size = max(size, v.named(child.Name, child.Value))
		}
	default: // says nothing
	}
	return size
}

// itself reads a value as the size of a list, at least 1.
func (v *values) itself(value *ast.Value) int64 {
	switch value.Kind {
	case ast.Variable:
		return v.ofVariable(value.Raw).itself
	case ast.IntValue, ast.FloatValue, ast.StringValue, ast.BlockValue:
		return v.number(value.Raw)
	default:
		return v.p.listSize
	}
}

// ofVariable looks at each variable once: its value may be large and used by
// every field.
func (v *values) ofVariable(name string) sizes {
	if known, ok := v.sizes[name]; ok {
		return known
	}
	given, fallback := v.variable(name)
	found := sizes{itself: v.itselfJSON(given), members: v.membersJSON(given)}
	if fallback != nil {
		found = sizes{itself: v.itself(fallback), members: v.members(fallback)}
	}
	v.sizes[name] = found
	return found
}

func (v *values) itselfJSON(value any) int64 {
	switch value := value.(type) {
	case json.Number:
		return v.number(string(value))
	case string:
		return v.number(value)
	case float64:
		return v.number(strconv.FormatFloat(value, 'g', -1, 64))
	case int:
		return v.number(strconv.Itoa(value))
	case int64:
		return v.number(strconv.FormatInt(value, 10))
	}
	return v.p.listSize
}

func (v *values) membersJSON(value any) int64 {
	var size int64
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if v.p.list[name] {
				size = max(size, v.itselfJSON(member))
			} else {
				size = max(size, v.membersJSON(member))
			}
		}
	case []any:
		for _, member := range value {
			size = max(size, v.membersJSON(member))
		}
	}
	return size
}

// number reads digits as a size. Upstreams give 0 and negative sizes meanings of
// their own, "all" among them: such a list counts as one of unknown size, or as
// the size without its sign if that is more.
func (v *values) number(text string) int64 {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if (err != nil && !math.IsInf(n, 0)) || math.IsNaN(n) {
		return v.p.listSize
	}
	size := int64(math.MaxInt64)
	if whole := math.Ceil(math.Abs(n)); whole < 1<<62 {
		size = int64(whole)
	}
	if n <= 0 {
		return max(size, v.p.listSize)
	}
	return max(size, 1)
}
