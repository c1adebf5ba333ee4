package policy

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
	EffectNewBucket = "new-bucket" // a bucket starts full
)

// Change is one difference between two documents, told in the words of limits
// and routes rather than of lines.
type Change struct {
	Path    string `json:"path"`               // in the newer document; in the older one for what was removed
	LimitID string `json:"limit_id,omitempty"` // set when the change concerns one limit
	Kind    string `json:"kind"`               // added, removed, changed or renamed
	Before  string `json:"before,omitempty"`
	After   string `json:"after,omitempty"`
	Effect  string `json:"effect"` // tighter, looser, neutral or new-bucket
	Text    string `json:"text"`   // one sentence for people
}

// Diff lists what changes from before to after. Before may be nil.
func Diff(before, after *Document) []Change { return nil }
