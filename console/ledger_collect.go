package console

// intake is what a collector remembers between two rounds.
type intake struct {
	place string          // in the feed
	known map[string]bool // tenants
}

func newIntake(Deps) *intake { return &intake{known: map[string]bool{}} }
