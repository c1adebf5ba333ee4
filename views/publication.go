package views

import (
	"strconv"
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// VersionRow is one published version.
type VersionRow struct {
	Number                         int64
	Digest, Note, Author           string
	Approvers                      []string
	Kind                           string
	RollbackOf                     int64
	CreatedAt                      time.Time
	Live                           bool
	Canary                         string // running or stopped; "" when it was none, or was promoted
	BreakGlass                     bool
	Changes, Tighter, Looser, High int

	Converged     string // "0.2 s on 12"; ui.Unknown when it was never seen on all
	Before, Since string // refused in the minutes around; ui.Unknown
}

// what says in a few words what a version is.
func (r VersionRow) what() string {
	switch {
	case r.RollbackOf > 0:
		return "roll back to v" + v(r.RollbackOf)
	case r.Kind == "adopt":
		return "adopted from Redis"
	}
	return plural(r.Changes, "change", "changes")
}

func versionRemark(r VersionRow) string {
	switch {
	case r.Canary == "running":
		return "a canary: some gateways have it"
	case r.Canary == "stopped":
		return "a canary that was stopped"
	case r.RollbackOf > 0:
		return "rolls back to v" + v(r.RollbackOf)
	case r.Live:
		return "in force"
	}
	return "superseded"
}

// VersionsProps is the list of versions.
type VersionsProps struct {
	Frame      ui.FrameProps
	Now        time.Time
	Rows       []VersionRow
	Pager      ui.PagerProps
	CanPublish bool
	AsOf       string // a time that was asked for
	AsOfError  string
}

// VersionProps is the publication page of one version.
type VersionProps struct {
	Frame           ui.FrameProps
	Now             time.Time
	Version         VersionRow
	Head            int64
	Status          PublicationProps
	Risks           []RiskGroup
	Counts          string
	Proof           []CheckRow
	RollbackTo      int64 // what the button goes back to; 0 when there is nothing
	RollbackChanges []ui.DiffRow
	Confirmations   []ConfirmationRow // that rolling back asks for
	Form            *form.Form        // note
	NeedsApproval   bool              // rolling back was refused for want of approvals
	CanPublish      bool
	Canary          *CanaryProps
}

// aside reports whether anything stands beside the gateways.
func (p VersionProps) aside() bool {
	return p.Canary != nil || p.CanPublish && p.RollbackTo > 0 || len(p.Proof) > 0
}

// CanaryProps is a canary: who has it, what is watched, how it ended.
type CanaryProps struct {
	Version, Base, Successor int64
	State                    string // running, promoted or stopped
	Plan                     string // "2 gateways for at least 5 minutes, then promoted by itself"
	Guards                   string
	Replicas                 []string
	Left                     string // when it may be promoted: "from 15:04:05 UTC on, in 2 min"; "" when it may
	Ended                    string // "stopped by headgate after 12 s: …"
	Form                     *form.Form
}

// others says what the gateways without the canary do, or did while it ran.
func (c CanaryProps) others() string {
	if c.State == "running" {
		return "enforce"
	}
	return "enforced"
}

// PublicationProps says which gateways enforce a version.
type PublicationProps struct {
	Version, Head int64
	Now           time.Time
	Known         bool      // false while nobody can say what gateways enforce
	Since         time.Time // since when it is not known
	Canary        bool      // it concerns a few gateways alone
	Running       bool      // the canary has not ended
	On, Of        int
	Silent, Nacks int
	Overtook      int           // of On: enforce a later version
	OnTrial       int           // of Of: enforce the version on trial instead
	After         time.Duration // until the last of them
	Rows          []PublicationRow
}

// Done reports whether there is nothing left to wait for.
func (p PublicationProps) Done() bool {
	return p.history() || p.Known && p.Of > 0 && p.On == p.Of && !p.Running
}

// history reports whether another version is in force by now.
func (p PublicationProps) history() bool { return p.Version < p.Head }

// Line is the one sentence about a publication.
func (p PublicationProps) Line() string {
	who := " of " + strconv.Itoa(p.Of)
	if p.Canary {
		who += " canary gateways"
		if p.Of == 1 {
			who = " of 1 canary gateway"
		}
	}
	switch {
	case !p.Known && p.Of == 0:
		return "Saved as v" + v(p.Version) + "; which gateways enforce it is unknown: Redis cannot be asked"
	case !p.Known:
		return "Saved as v" + v(p.Version) + ", live on " + strconv.Itoa(p.On) + who + " when last heard; now unknown: Redis cannot be asked"
	case p.history() && p.On == p.Of:
		return strconv.Itoa(p.On) + who + " went past v" + v(p.Version)
	case p.Of == 0:
		return "Saved as v" + v(p.Version) + "; no gateway is running"
	}
	verb := " enforce v"
	if p.Canary && p.Of == 1 {
		verb = " enforces v"
	}
	line := strconv.Itoa(p.own()) + who + verb + v(p.Version)
	if p.OnTrial > 0 {
		line += ", " + strconv.Itoa(p.OnTrial) + " the version on trial"
	}
	if ahead := p.On - p.own(); ahead > 0 {
		line += ", " + strconv.Itoa(ahead) + " a later version"
	}
	return line
}

// own is how many enforce this very version: of one in force not all that are
// past it, since Redis may hold a later one.
func (p PublicationProps) own() int {
	if p.Canary || p.history() {
		return p.On
	}
	return p.On - p.Overtook
}

func (p PublicationProps) tone() string {
	switch {
	case p.history():
		return "info"
	case p.Nacks > 0:
		return "bad"
	case p.Known && p.Of > 0 && p.On == p.Of:
		return "ok"
	}
	return "warn"
}

func (p PublicationProps) url() string { return ui.VersionURL(p.Version) + "/status" }

// trigger is how soon the page asks for its status again.
func (p PublicationProps) trigger() string {
	if p.Done() {
		return "every 5s"
	}
	return "every 1s"
}

// share is how much of the ring is filled, of 100.
func (p PublicationProps) share() int {
	if p.Of == 0 {
		return 0
	}
	return 100 * p.own() / p.Of
}

func (p PublicationProps) ring() string {
	if p.Of == 0 && !p.Known {
		return "?"
	}
	return strconv.Itoa(p.own()) + "/" + strconv.Itoa(p.Of)
}

// PublicationRow is one gateway and what it makes of a version.
type PublicationRow struct {
	ID, Host, Zone string
	Version        int64
	Status         string
	Via            string // how it was heard of, when not through Redis
	Age            time.Duration
	Target         bool // the version is meant for it
	On             bool
	After          string // from publishing until it was in force there; "" when unknown
	NACK           string
}

func (r PublicationRow) heard() string {
	if r.Age < time.Second {
		return "now"
	}
	return ui.Span(r.Age) + " ago"
}

func (r PublicationRow) tone() string {
	switch {
	case r.NACK != "":
		return "bad"
	case !r.Target:
		return ""
	case r.On:
		return "ok"
	}
	return "warn"
}
