package graphql

import "github.com/vektah/gqlparser/v2/ast"

// visit prices one operation. A fragment is priced once per place (at the root of
// the operation or below), because what it costs depends on nothing else: so the
// work is bounded by the length of the document, however often fragments are used.
type visit struct {
	p         *Pricer
	fragments map[string]*ast.FragmentDefinition
	priced    map[place]*price // nil while the fragment is being priced
	values    values
	level     int // of sets within each other
	steps     int // selections that were priced
}

// place is a fragment where it is used.
type place struct {
	fragment string
	root     bool
}

func newVisit(p *Pricer, doc *ast.QueryDocument, op *ast.OperationDefinition, variables map[string]any) (*visit, error) {
	v := &visit{p: p, fragments: make(map[string]*ast.FragmentDefinition, len(doc.Fragments)), priced: map[place]*price{}}
	for _, f := range doc.Fragments {
		v.fragments[f.Name] = f
	}
	definitions := make(map[string]*ast.VariableDefinition, len(op.VariableDefinitions))
	for _, d := range op.VariableDefinitions {
		if definitions[d.Variable] != nil {
			return nil, refuse(ErrSyntax, "variable $%s is defined twice", shown(d.Variable))
		}
		definitions[d.Variable] = d
	}
	v.values = values{p: p, definitions: definitions, given: variables, sizes: map[string]sizes{}}
	return v, nil
}

func tooManyFields() error {
	return refuse(ErrTooComplex, "the request has more than %d fields, the most allowed; fragments count at each use", MaxFields)
}

// set prices a selection set.
func (v *visit) set(selections ast.SelectionSet, in scope) (price, error) {
	v.level++
	defer func() { v.level-- }()
	if v.level > maxLevels {
		return price{}, refuse(ErrTooComplex, "fields and fragments nest deeper than %d levels, the most allowed", maxLevels)
	}
	var total price
	for _, s := range selections {
		v.steps++
		one, err := v.selection(s, in)
		if err != nil {
			return price{}, err
		}
		total = total.and(one)
		if total.fields > MaxFields {
			return price{}, tooManyFields()
		}
		if total.breadth > v.p.maxBreadth {
			return price{}, refuse(ErrTooComplex, "a selection has more than %d fields, the most allowed", v.p.maxBreadth)
		}
	}
	return total, nil
}

func (v *visit) selection(s ast.Selection, in scope) (price, error) {
	switch s := s.(type) {
	case *ast.Field:
		return v.field(s, in)
	case *ast.InlineFragment:
		if out, err := v.values.leavesOut(s.Directives); out || err != nil {
			return price{}, err
		}
		if s.TypeCondition != "" {
			in.on = s.TypeCondition
		}
		return v.set(s.SelectionSet, in)
	case *ast.FragmentSpread:
		if out, err := v.values.leavesOut(s.Directives); out || err != nil {
			return price{}, err
		}
		return v.fragment(s.Name, in)
	}
	return price{}, refuse(ErrSyntax, "the query has a selection of an unknown kind")
}

// fragment prices a named fragment where it is used.
func (v *visit) fragment(name string, in scope) (price, error) {
	def := v.fragments[name]
	if def == nil {
		return price{}, refuse(ErrSyntax, "fragment %q is not defined", shown(name))
	}
	at := place{fragment: name, root: in.root != ""}
	if known, ok := v.priced[at]; ok {
		if known == nil {
			return price{}, refuse(ErrSyntax, "fragment %q contains itself", shown(name))
		}
		return *known, nil
	}
	v.priced[at] = nil
	found, err := v.set(def.SelectionSet, scope{root: in.root, on: def.TypeCondition})
	if err != nil {
		return price{}, err
	}
	v.priced[at] = &found
	return found, nil
}

func (v *visit) field(f *ast.Field, in scope) (price, error) {
	if out, err := v.values.leavesOut(f.Directives); out || err != nil {
		return price{}, err
	}
	size, err := v.values.listSize(f.Arguments)
	if err != nil {
		return price{}, err
	}
	below, err := v.set(f.SelectionSet, scope{})
	if err != nil {
		return price{}, err
	}
	found := price{
		fields:     1 + below.fields,
		breadth:    1,
		depth:      1 + below.depth,
		connection: f.Name == "edges" || f.Name == "nodes",
	}
	if found.depth > v.p.maxDepth {
		return price{}, refuse(ErrTooComplex, "fields nest deeper than %d levels, the most allowed", v.p.maxDepth)
	}
	weight := v.p.weight(in, f.Name)
	switch {
	case len(f.SelectionSet) == 0:
		found.cost = times(weight, max(size, 1))
	case size == 0 && below.connection:
		found.cost = add(weight, times(v.p.listSize, below.cost))
	default:
		found.cost = add(weight, times(max(size, 1), below.cost))
	}
	return found, nil
}
