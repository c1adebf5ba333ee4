package policy

// Kinds of a Cut.
const (
	CutRate     = "cut-half"   // half or less of what a limit admitted is left
	CutBlocked  = "blocked"    // nothing is left
	CutLimit    = "limit-gone" // a limit is no longer there
	CutRoute    = "route-gone" // a route is no longer there
	CutNoRoutes = "no-routes"  // the document has no routes any more
	CutNoLimits = "no-limits"  // the document has no limits any more
)

// Cut is a change that may be a slip: a limit of which half or less is left, or
// something that vanishes. Whoever publishes it should say that it is meant.
type Cut struct {
	Kind    string
	Path    string  // as in Change
	LimitID string  // "" when it concerns no single limit
	Plan    string  // whose limit it is; "" outside plans
	Route   string  // whose limit it is; "" outside routes
	Unit    string  // of Before and After: "a minute", "burst", "a month", "at once"
	Before  float64 // what was admitted, -1 for unlimited
	After   float64 // what is admitted, -1 for unlimited
	Factor  float64 // After / Before, 0 to 0.5; 0 from unlimited
	Text    string  // one sentence for people
	Word    string  // what to type to confirm it: "0 routes", "0 limits"; "" for a box to tick
}

// Cuts lists what a publisher should confirm of the changes from before to after.
func Cuts(before, after *Document) []Cut {
	return nil
}
