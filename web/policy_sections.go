package web

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
)

// section is the part of a document that one form edits: general, global,
// shared, a plan (Key is its name) or a route (Key is its index).
type section struct{ Kind, Key string }

// byIndex stands before a route's index in an address, where its name would not
// do: it has none, or another route has the same.
const byIndex = "~"

// address is how the section is named in addresses of the draft's pages.
func (s section) address(d *policy.Document) (kind, key string) {
	if s.Kind != "route" {
		return s.Kind, s.Key
	}
	name, i := d.Routes[s.index()].Name, s.index()
	if name == "" || strings.HasPrefix(name, byIndex) || slices.IndexFunc(d.Routes, func(r policy.Route) bool { return r.Name == name }) != i {
		return s.Kind, byIndex + s.Key
	}
	return s.Kind, name
}

// sectionAt is the section at an address; false when the document has none there.
func sectionAt(d *policy.Document, kind, key string) (section, bool) {
	s := section{kind, key}
	if kind == "route" {
		var i int
		if index, ok := strings.CutPrefix(key, byIndex); ok {
			i = section{"route", index}.index()
		} else {
			i = slices.IndexFunc(d.Routes, func(r policy.Route) bool { return r.Name == key })
		}
		s = routeSection(i)
	}
	return s, s.exists(d)
}

// routeSection is the part of the i-th route.
func routeSection(i int) section { return section{"route", strconv.Itoa(i)} }

func (s section) index() int {
	n, err := strconv.Atoi(s.Key)
	if err != nil {
		return -1
	}
	return n
}

// limitsOf points at the limits of a section; nil when it has none or is not there.
func (s section) limitsOf(d *policy.Document) *[]policy.Limit {
	switch s.Kind {
	case "global":
		if s.Key == "" {
			return &d.Global.Limits
		}
	case "shared":
		if s.Key == "" {
			return &d.Shared
		}
	case "plan":
		if p, ok := d.Plans[s.Key]; ok {
			limits := slices.Clone(p.Limits)
			return &limits // a plan lies in a map: put is what stores it
		}
	case "route":
		if i := s.index(); i >= 0 && i < len(d.Routes) {
			return &d.Routes[i].Limits
		}
	}
	return nil
}

// exists reports whether the document has the section.
func (s section) exists(d *policy.Document) bool {
	return s == section{Kind: "general"} || s.limitsOf(d) != nil
}

// addLimit appends a limit to start from; a section without limits stays as it is.
func (s section) addLimit(d *policy.Document) {
	limits := s.limitsOf(d)
	if limits == nil {
		return
	}
	l := policy.Limit{Name: "new", Per: policy.PerTenant, Counts: policy.CountsRequests, Rate: policy.Rate{Tokens: 60, Period: time.Minute}, Burst: 60}
	if s.Kind == "global" {
		l.Per = policy.PerGlobal
	}
	if s.Kind == "route" {
		l.Per = map[policy.Identity]policy.Per{policy.IdentityIP: policy.PerIP, policy.IdentityUser: policy.PerUser}[d.Routes[s.index()].Identity]
		l.Per = cmp.Or(l.Per, policy.PerTenant)
	}
	s.put(d, append(slices.Clip(*limits), l)) // what it was read from may be shared
}

func (s section) put(d *policy.Document, limits []policy.Limit) {
	if s.Kind == "plan" {
		p := d.Plans[s.Key]
		p.Limits = limits
		d.Plans[s.Key] = p
		return
	}
	*s.limitsOf(d) = limits
}

// drop removes a plan or a route from the document.
func (s section) drop(d *policy.Document) {
	switch s.Kind {
	case "plan":
		delete(d.Plans, s.Key)
	case "route":
		d.Routes = slices.Delete(d.Routes, s.index(), s.index()+1)
	}
}

// sectionsOf lists the sections of a document in the order of the page.
func sectionsOf(d *policy.Document) []section {
	all := []section{{Kind: "general"}, {Kind: "global"}, {Kind: "shared"}}
	for _, name := range planNames(d) {
		all = append(all, section{"plan", name})
	}
	for i := range d.Routes {
		all = append(all, routeSection(i))
	}
	return all
}

func planNames(d *policy.Document) []string {
	var names []string
	for name := range d.Plans {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
