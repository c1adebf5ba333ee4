package gateway

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/headgate/headgate/policy"
)

// readiness is the body of /readyz.
type readiness struct {
	Ready    bool         `json:"ready"`
	Reasons  []string     `json:"reasons"`  // why not; empty when ready
	Warnings []string     `json:"warnings"` // what does not keep it from serving
	Mode     policy.Mode  `json:"mode"`
	Cause    string       `json:"cause,omitempty"` // of the incident that lasts
	Live     int64        `json:"live"`            // replicas, as last known
	Breaker  string       `json:"breaker"`
	Version  int64        `json:"version"`
	Digest   string       `json:"digest,omitempty"`
	NACK     *policy.NACK `json:"nack,omitempty"`
	Replica  string       `json:"replica"`
}

// AdminHandler serves /metrics, /healthz, /readyz and /incidents. It tells much about the
// deployment: keep it on loopback or behind something that asks who is there.
func (g *Gateway) AdminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(g.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		r := g.readiness()
		status := http.StatusOK
		if !r.Ready {
			status = http.StatusServiceUnavailable
		}
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, status, r)
	})
	mux.HandleFunc("GET /incidents", func(w http.ResponseWriter, _ *http.Request) {
		list := g.allIncidents()
		if list == nil {
			list = []incident{}
		}
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, http.StatusOK, map[string][]incident{"incidents": list})
	})
	return mux
}

func (g *Gateway) readiness() readiness {
	status := g.cfg.Policies.Status()
	r := readiness{
		Reasons: g.unready(), Warnings: []string{}, Mode: g.mode(), Breaker: g.limiter.BreakerState(),
		NACK: status.NACK, Replica: g.cfg.Identity.ID, Cause: g.degradedBy(), Live: g.live.Load(),
	}
	if r.Ready = len(r.Reasons) == 0; r.Ready {
		r.Reasons = []string{}
	}
	if snap := g.cfg.Policies.Current(); snap != nil {
		r.Version, r.Digest = snap.Version, snap.Digest
		if view := g.viewOf(snap.Compiled); view.users == nil || view.users.Problem() != nil {
			r.Warnings = append(r.Warnings, "user-keys-unreadable")
		}
	}
	if !g.reached.Load() {
		r.Warnings = append(r.Warnings, "redis-unreachable")
	}
	if status.NACK != nil {
		r.Warnings = append(r.Warnings, "nack-"+status.NACK.Code)
	}
	return r
}
