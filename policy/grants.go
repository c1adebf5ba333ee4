package policy

import (
	"errors"
	"fmt"
	"time"
)

// Grant is units that a tenant was given once, on top of its quota's amount. It belongs to the
// counter of one period, named by the period's start: it ends with that period, is
// not carried into the next, and neither a change of plan nor one of its amount takes
// it away while the same counter is counted on. A lifetime's starts at Unix time 0.
type Grant struct {
	Start  time.Time `json:"start"`
	Amount int64     `json:"amount"` // units, 1..MaxAmount; a grant never takes away
}

// MaxGrants bounds the grants of a tenant that gateways are told of.
const MaxGrants = 50

// Grants are a tenant's grants, ready to be asked: units by the start of the period
// in Unix µs. A nil Grants has none. It is immutable and safe for concurrent use.
type Grants map[int64]int64

// CompileGrants checks and adds up the grants of a tenant record. Beyond MaxAmount
// they count as MaxAmount. The error tells all problems, each with the place in the list and the field.
func CompileGrants(list []Grant) (Grants, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if len(list) > MaxGrants {
		return nil, fmt.Errorf("grants: %d are too many: at most %d are allowed", len(list), MaxGrants)
	}
	out := make(Grants, len(list))
	var problems []error
	for i, g := range list {
		at := index("grants", i)
		if g.Amount < 1 || g.Amount > MaxAmount {
			problems = append(problems, fmt.Errorf("%s.amount: %d must be 1 to %d (2^53-1)", at, g.Amount, int64(MaxAmount)))
		}
		if g.Start.UnixMicro() < 0 || g.Start.UnixMicro() >= MaxUnits {
			problems = append(problems, fmt.Errorf("%s.start: %s is no start of a period", at, g.Start.Format(time.RFC3339)))
		}
		start := g.Start.UnixMicro()
		out[start] = min(out[start]+min(max(g.Amount, 0), MaxAmount), MaxAmount)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return out, nil
}

// Of is how many units the period that starts then has been given.
func (g Grants) Of(startMicros int64) int64 { return g[startMicros] }

// Add puts granted units on top of a quota's numbers in force: of its amount, and of its max
// where it has one, so that the room for overage stays what it was. An unlimited
// quota stays so. The provenance then says how many were granted.
func (g Grants) Add(startMicros, amount, most int64, p Provenance) (int64, int64, Provenance) {
	extra := g[startMicros]
	if extra == 0 || p.Unlimited {
		return amount, most, p
	}
	p.Granted = extra
	if most != 0 {
		most = min(most+extra, MaxAmount)
	}
	return min(amount+extra, MaxAmount), most, p
}
