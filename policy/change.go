package policy

import (
	"cmp"
	"slices"
)

// Kinds of a Change.
const (
	ChangeAdded   = "added"
	ChangeRemoved = "removed"
	ChangeChanged = "changed"
	ChangeRenamed = "renamed"
)

// Effects of a Change on callers.
const (
	EffectTighter   = "tighter"
	EffectLooser    = "looser"
	EffectNeutral   = "neutral"
	EffectNewBucket = "new-bucket" // counting starts afresh, with a full bucket
)

// Risks of a Change: how closely a reviewer should look.
const (
	// RiskHigh is what may shut callers out or let strangers in at once: a limit,
	// route, plan or check that is removed or opened, closed that becomes open,
	// enforce that becomes shadow, to unlimited or to nothing, a cut to half or
	// less, a rise to ten times or more, and whatever changes who is counted.
	RiskHigh = "high"
	// RiskMedium is any other change that callers can notice.
	RiskMedium = "medium"
	// RiskLow is what callers cannot notice.
	RiskLow = "low"
)

// Change is one difference between two documents, told in the words of limits
// and routes rather than of lines.
type Change struct {
	Path    string `json:"path"`               // in the newer document; in the older one for what was removed
	LimitID string `json:"limit_id,omitempty"` // set when the change concerns one limit
	Kind    string `json:"kind"`               // added, removed, changed or renamed
	Before  string `json:"before,omitempty"`
	After   string `json:"after,omitempty"`
	Effect  string `json:"effect"`         // tighter, looser, neutral or new-bucket
	Risk    string `json:"risk,omitempty"` // high, medium or low; "" in changes that were stored before there were risks
	Text    string `json:"text"`           // one sentence for people
}

// RiskGroup is the changes of one risk, in their order.
type RiskGroup struct {
	Risk    string
	Changes []Change
}

// ByRisk groups changes, the riskiest first; groups without any are left out.
// Changes without a risk count as medium.
func ByRisk(changes []Change) []RiskGroup {
	var groups []RiskGroup
	for _, risk := range []string{RiskHigh, RiskMedium, RiskLow} {
		g := RiskGroup{Risk: risk}
		for _, c := range changes {
			if cmp.Or(c.Risk, RiskMedium) == risk {
				g.Changes = append(g.Changes, c)
			}
		}
		if len(g.Changes) > 0 {
			groups = append(groups, g)
		}
	}
	return slices.Clip(groups)
}
