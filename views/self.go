package views

import (
	"time"

	"github.com/headgate/headgate/views/ui"
)

// SelfProps is a tenant's own page. It holds nothing of other tenants and no
// internals of the deployment.
type SelfProps struct {
	Environment string
	Now         time.Time
	TenantName  string
	Operator    string // who looks, when an operator does; the page is then read-only
	Back        string
	Sentence    SelfNow
	Usage       UsageLiveProps
	Keys        []KeyRow
	Limits      []EffectiveRow
	Version     string
	Header      string // how to send the key: "Authorization: Bearer hg_live_…"
}

// SelfNow is the page's first sentence: how the tenant stands now.
type SelfNow struct {
	Kind string // ok, warn or bad
	Text string
	More string
}

func (p SelfProps) title() string { return p.TenantName + " · API usage" }

// headerRow explains one header of an answer.
type headerRow struct{ Name, Meaning string }

func readHeaders() []headerRow {
	return []headerRow{
		{"RateLimit-Policy", "the limits that a request met: q requests or tokens in w seconds; rl-burst is how many at once, where that is another number"},
		{"RateLimit", "what is left of each: r requests or tokens now, t seconds until more"},
		{"Retry-After", "on 429 and 503: wait this many seconds, then try again; waiting is enough"},
		{"X-Request-Id", "name it when you ask for help"},
	}
}

func selfFrame(p SelfProps) ui.FrameProps {
	return ui.FrameProps{Title: p.title(), Environment: p.Environment}
}
