package views

import (
	"time"

	"github.com/headgate/headgate/views/ui"
)

// GatewayListProps is the page of replicas.
type GatewayListProps struct {
	Frame ui.FrameProps
	Live  GatewaysLiveProps
	Loss  LossProps
}

// GatewaysLiveProps is the part of the page that moves.
type GatewaysLiveProps struct {
	Now     time.Time
	Poll    string
	Known   bool   // false: Redis is away and heartbeats with it
	Unknown string // "unknown since 10:41:07 UTC; what stands here is from then"
	Age     string
	Summary string // "3 of 3 enforce v42"
	Healthy bool
	Differs bool // only rows that are not in sync
	Total   int
	Rows    []GatewayRow
	AllURL  string
	OnlyURL string
}

// GatewayRow is one replica.
type GatewayRow struct {
	Canary                bool   // one of those that get a new version first
	Via                   string // how it was heard of, when not through Redis
	ID, Host, Zone, Build string
	Version, Digest       string
	FullDigest            string
	Status                string
	Since                 time.Time
	NACK, NACKDetail      string
	Mode, Breaker         string
	RTT, Offset           string
	Decisions, Refused    string
	Fallback              string
	Age                   string
}

// LossProps says what a loss of Redis would admit at worst.
type LossProps struct {
	More     int // routes that are not listed
	Title    string
	Version  string // of the policy; "" when there is none
	Replicas string // "3 live gateways" or "unknown number of gateways"
	Rows     []LossRow
}

// LossRow is one route of it.
type LossRow struct {
	Route  string
	Mode   string // open or closed
	Text   string // what one subject could do at worst in the first minute
	Bound  string // "1 200" or "no bound" or "0"
	Danger bool
}

func modeKind(mode string) string {
	switch mode {
	case "normal":
		return "ok"
	case ui.Unknown:
		return "warn"
	default:
		return "bad"
	}
}

func breakerKind(state string) string {
	switch state {
	case "closed":
		return "ok"
	case "open":
		return "bad"
	default:
		return "warn"
	}
}
