package views

// DraftBesideProps is what stands beside a draft while it is edited. It is loaded
// anew while its reader types, and shows what is saved.
type DraftBesideProps struct {
	Poll    string // its own address
	Loaded  bool   // false: the page has just come, and the rest is on its way
	Review  string // where all of it is told
	Checks  []CheckRow
	Touches string // "3 changes: 2 tighter"; "" when nothing changes
	Widest  string // whom the widest change concerns
	TryURL  string // a form that simulates the last day; "" when the reader may not, or has
	Outage  []OutageRow
	Replica string // for how many gateways Outage is; "unknown" when not known
}

// OutageRow is what a minute without Redis would admit at worst, per subject.
type OutageRow struct {
	Route     string
	Now, Then string // Now is of the version in force, "" when the route is new
	Tone      string // warn where it is more than now, or has no bound
}
