package web

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) gatewayList(w http.ResponseWriter, r *http.Request) error {
	in, err := s.inForce(r.Context())
	if err != nil {
		return err
	}
	h := s.Fleet.Health(r.Context())
	return s.render(w, r, http.StatusOK, views.GatewayList(views.GatewayListProps{Frame: s.titled(r, "Gateways"),
		Live: s.gatewaysProps(r, h), Loss: lossOf(s.Now(), in, h)}))
}

func (s *Server) gatewaysLive(w http.ResponseWriter, r *http.Request) error {
	return s.render(w, r, http.StatusOK, views.GatewaysLive(s.gatewaysProps(r, s.Fleet.Health(r.Context()))))
}

func (s *Server) gatewaysProps(r *http.Request, h console.Health) views.GatewaysLiveProps {
	now, differs := s.Now(), r.URL.Query().Get("differs") == "1"
	query := ""
	if differs {
		query = "differs=1"
	}
	p := views.GatewaysLiveProps{Now: now, Poll: ui.GatewaysLiveURL(query), Known: h.FleetKnown, Differs: differs,
		Total: len(h.Replicas), AllURL: ui.GatewaysURL(), OnlyURL: ui.GatewaysDiffersURL(), Age: "heartbeats · " + ui.Ago(now, h.FleetAt)}
	p.Summary, p.Healthy = fleetSummary(h), h.FleetKnown && h.Of > 0 && h.InSync+h.OnCanary == h.Of && h.Nacked == 0 && h.Degraded == 0
	if !h.FleetKnown {
		p.Unknown = "Heartbeats travel through Redis, which has not answered" + ui.SinceClock(h.RedisSince) + ". The rows below are what was last heard."
	}
	for _, g := range h.Replicas {
		row := gatewayRow(g, h.FleetKnown)
		row.Canary = h.Rollout != nil && slices.Contains(h.Rollout.Replicas, g.ID)
		if !differs || row.Status != "in sync" || row.Mode != string(policy.ModeNormal) {
			p.Rows = append(p.Rows, row)
		}
	}
	return p
}

func fleetSummary(h console.Health) string {
	switch {
	case !h.FleetKnown:
		return "unknown"
	case h.Version == 0:
		return fmt.Sprintf("%d running, nothing published yet", h.Of)
	case h.Of == 0:
		return "no gateway is running"
	default:
		s := fmt.Sprintf("%d of %d enforce v%d", h.InSync, h.Of, h.Version)
		if h.Rollout != nil {
			s += fmt.Sprintf(", %d the canary v%d", h.OnCanary, h.Rollout.Version)
		}
		if h.Nacked > 0 {
			s += fmt.Sprintf(", %d refuse it", h.Nacked)
		}
		if h.Degraded > 0 {
			s += fmt.Sprintf(", %d cut off from Redis", h.Degraded)
		}
		if h.ViaConsole > 0 {
			s += fmt.Sprintf(", %d of them heard of through a console", h.ViaConsole)
		}
		return s
	}
}

// gatewayRow tells a replica's heartbeat. When heartbeats cannot be read its
// status is unknown, whatever the last one said.
func gatewayRow(g console.Replica, known bool) views.GatewayRow {
	row := views.GatewayRow{ID: g.ID, Host: g.Host, Zone: g.Zone, Build: g.Build, Digest: ui.ShortDigest(g.Digest), FullDigest: g.Digest,
		Version: "none", Status: statusWord(g.Status), Since: g.Since, Mode: string(g.Mode), Breaker: g.Breaker,
		RTT: ui.Millis(time.Duration(g.RedisRTTMicros) * time.Microsecond), Offset: signedMillis(g.ClockOffsetMS),
		Decisions: ui.Num(g.DecisionsPerS), Refused: ui.Num(g.RefusedPerS), Fallback: ui.Num(g.FallbackPerS), Age: ui.Span(g.Age) + " ago"}
	if g.ViaConsole {
		row.Via = "via the console"
	}
	if g.Version > 0 {
		row.Version = "v" + strconv.FormatInt(g.Version, 10)
	}
	if g.NACK != nil {
		row.NACK, row.NACKDetail = fmt.Sprintf("v%d %s", g.NACK.Version, g.NACK.Code), clip(g.NACK.Detail)
	}
	if g.Mode == policy.ModeDegraded {
		row.RTT = "unreachable"
	}
	if !known {
		row.Status = ui.Unknown
	}
	if !known || g.Status == console.StatusSilent || g.Status == console.StatusGone {
		row.Decisions, row.Refused, row.Fallback, row.RTT, row.Offset = ui.Unknown, ui.Unknown, ui.Unknown, ui.Unknown, ""
		row.Mode, row.Breaker = ui.Unknown, ui.Unknown
	}
	return row
}

func statusWord(st console.Status) string {
	if st == console.StatusInSync {
		return "in sync"
	}
	return string(st)
}

func signedMillis(ms int64) string {
	switch {
	case ms > 0:
		return "+" + ui.Int(ms) + " ms"
	default:
		return ui.Int(ms) + " ms"
	}
}

// lossOf says what each route would admit to one subject in the first minute
// without Redis: replicas × (fallback burst + fallback rate × 1 min).
func lossOf(now time.Time, in inForce, h console.Health) views.LossProps {
	p := views.LossProps{Version: in.label(), Title: "If Redis failed now", Replicas: fmt.Sprintf("%d live gateways, policy %s", h.Of, in.label())}
	replicas, known := int64(h.Of), h.FleetKnown || !h.FleetAt.IsZero()
	switch {
	case h.FleetKnown:
	case known: // the number from before is the best there is, and said to be that
		p.Title = "While Redis is away"
		p.Replicas = fmt.Sprintf("%d gateways when last heard %s, policy %s", h.Of, ui.Ago(now, h.FleetAt), in.label())
	default:
		p.Replicas = "unknown number of gateways"
	}
	if in.Compiled == nil {
		p.Replicas = ""
		return p
	}
	for _, rt := range in.Compiled.Routes {
		p.Rows = append(p.Rows, lossRow(rt.Name, rt.Route.OnStoreFailure, replicas, known))
	}
	if p.More = max(len(p.Rows)-shownChanges, 0); p.More > 0 { // what has no bound is never left out before what has one
		slices.SortStableFunc(p.Rows, func(a, b views.LossRow) int {
			switch {
			case a.Danger == b.Danger:
				return 0
			case a.Danger:
				return -1
			}
			return 1
		})
		p.Rows = p.Rows[:shownChanges]
	}
	return p
}

func lossRow(route string, fail policy.StoreFailure, replicas int64, known bool) views.LossRow {
	row := views.LossRow{Route: route, Mode: string(fail.Mode)}
	if fail.Mode == policy.FailClosed || fail.Fallback == nil {
		row.Text, row.Bound = "Everything is refused with 503.", "0"
		return row
	}
	fb := *fail.Fallback
	if fb.Unlimited || fb.Rate.Unlimited {
		row.Text, row.Bound, row.Danger = "Everything is admitted and counted.", "no bound", true
		return row
	}
	if fb.Share {
		row.Text, row.Bound = "Each gateway admits a share of the limits in force: what they let through, divided by the gateways there are.", "the limits"
		return row
	}
	row.Text = fmt.Sprintf("Each gateway admits %s, burst %s, to each subject.", fb.Rate, ui.Int(fb.Burst))
	row.Bound = ui.Unknown
	if known {
		row.Bound = ui.Int(worstMinute(fb, replicas))
	}
	return row
}

// worstMinute is what one subject can get of a fallback in one minute.
func worstMinute(fb policy.Fallback, replicas int64) int64 {
	refill := 0.0
	if fb.Rate.Period > 0 {
		refill = math.Floor(float64(fb.Rate.Tokens) * float64(time.Minute) / float64(fb.Rate.Period))
	}
	return replicas * (fb.Burst + int64(refill))
}
