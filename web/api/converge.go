package api

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// Converged says on how many gateways a change is in force. Its members are
// absent when nobody waited for them, and when it is not known because Redis
// cannot be asked.
type Converged struct {
	AcceptedOn *int     `json:"accepted_on,omitempty" doc:"Gateways that accept it"`
	RefusedOn  *int     `json:"refused_on,omitempty" doc:"Gateways that refuse it"`
	Of         *int     `json:"of,omitempty" doc:"Gateways that are not gone"`
	AfterMS    *float64 `json:"after_ms,omitempty" doc:"From the change until the last of them"`
}

// side says what a change does on a gateway.
type side bool

const (
	accepted side = true
	refused  side = false
)

// converge waits until the gateways have applied a change, if asked to.
func (a *API) converge(ctx context.Context, c console.Change, w Waiting, s side) (Converged, error) {
	d, err := w.duration()
	if err != nil || d == 0 {
		return Converged{}, err
	}
	return converged(a.Fleet.WaitChange(ctx, c, d), s), nil
}

func converged(c console.Convergence, s side) Converged {
	if !c.Known {
		return Converged{}
	}
	out := Converged{Of: new(c.Of), AfterMS: new(millis(c.After))}
	if s == accepted {
		out.AcceptedOn = new(c.On)
	} else {
		out.RefusedOn = new(c.On)
	}
	return out
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// issueWait is how long an answer with a new secret waits for gateways: the
// secret is of no use before they know of it.
const issueWait = 2 * time.Second

// NACK is why a gateway does not use a version.
type NACK struct {
	Gateway string    `json:"gateway"`
	Version int64     `json:"version"`
	Code    string    `json:"code"`
	Detail  string    `json:"detail"`
	Since   time.Time `json:"since"`
}

func nackOf(gateway string, n policy.NACK) NACK {
	return NACK{Gateway: gateway, Version: n.Version, Code: n.Code, Detail: n.Detail, Since: n.Since}
}
