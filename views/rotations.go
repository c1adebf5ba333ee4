package views

import (
	"strings"
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// RotationRow is one rotation in a list.
type RotationRow struct {
	ID, URL           string
	Tenant, TenantURL string
	Credential        string
	OldKID, NewKID    string
	State             string // overlap, ready, overdue, completed, forced or cancelled
	WhyNot            string // why it is not ready, in words
	OldLast           time.Time
	Reason            string
	Started, Ends     time.Time
	Ended             time.Time
}

// RotationListProps is the list of rotations.
type RotationListProps struct {
	Frame ui.FrameProps
	Now   time.Time
	Tabs  []ui.Tab
	Empty string // why there are none
	Rows  []RotationRow
	Pager ui.PagerProps
}

// RotationFormProps starts a rotation.
type RotationFormProps struct {
	Frame      ui.FrameProps
	Now        time.Time
	Form       *form.Form
	Credential string
	TenantName string
	OldKID     string
	OldEnds    string // words when the old key ends by itself before the overlap would
	Overlaps   []ui.Option
	Sources    []SourceRow // who used the old key in the last week
	UseAge     string
	Action     string
	Back       string
	Token      string
}

// RotationPageProps is one rotation.
type RotationPageProps struct {
	Frame        ui.FrameProps
	Now          time.Time
	Rotation     RotationRow
	Masked       string // old key
	NewMasked    string
	Extended     int
	EndReason    string
	CanAct       bool
	Extends      []ui.Option
	By           string // chosen extension, kept
	Act          string // a failed act: end, extend, cancel or brown
	Problem      string
	Reason       string
	EndEffect    string // what ending it now does, in numbers
	CancelEffect string
	Live         RotationLiveProps
	Brownouts    []BrownoutRow
}

// RotationLiveProps is the part of a rotation's page that moves.
type RotationLiveProps struct {
	Now      time.Time
	Poll     string
	State    string
	Left     string // "5 h 10 min left"
	Lines    []string
	Running  bool
	Ready    bool
	WhyNot   string
	ReadyAt  time.Time // if nobody uses the old key again; zero: not known
	UseAge   string
	Sources  []RotationSource
	BrownURL string // where a brown-out is begun; "" when it cannot be
	StopURL  string
	Brownout *BrownoutRow // that runs now
	Failed   string       // network of a brown-out that could not be begun
	Problem  string
	Reason   string
}

// RotationSource is one source of a rotation: old key against new.
type RotationSource struct {
	Network, Agent   string
	Brown            string // network that a brown-out can name; "" when another row of it has the button
	Stand, Word      string // ok or warn, and the word for it
	OldRequests      string
	OldRefused       string
	NewRequests      string
	OldLast, NewLast time.Time
	InBrownout       bool
}

// BrownoutRow is one brown-out.
type BrownoutRow struct {
	Network     string // "" for all sources
	From, Until time.Time
	Left        string // "42 s"; "" once it is over
	Stopped     time.Time
	Author      string
	Reason      string
	Refused     string // of the sources concerned, since the rotation began
}

// Who is whom a brown-out concerns, in words.
func (b BrownoutRow) Who() string {
	if b.Network == "" {
		return "all sources"
	}
	return b.Network
}

// brownID is an element's id for the brown-out of a network.
func brownID(network string) string {
	if network == "" {
		return "brown-all"
	}
	return "brown-" + strings.NewReplacer(".", "-", "/", "-", ":", "-").Replace(network)
}

// brownFailed is what stands beside the form of a brown-out that could not be begun.
func (p RotationLiveProps) brownFailed(network, value string) string {
	if p.Problem == "" || p.Failed != network {
		return ""
	}
	return value
}
