package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/headgate/headgate/limiter"
)

const (
	incidentsFile = "incidents.jsonl"
	liveFile      = "live.json"
	// keptIncidents bounds the incidents of earlier runs that are kept.
	keptIncidents = 100
	// maxIncidentLine bounds one of them, in bytes: it counts by route.
	maxIncidentLine = 256 << 10
	// waitingIncidents bounds those that are not yet written.
	waitingIncidents = 64
)

// incident is a span in which requests were decided without Redis, as it is told
// and kept.
type incident struct {
	Start    time.Time                `json:"start"`
	End      *time.Time               `json:"end"` // null while it lasts, or when the process ended within it
	Cause    string                   `json:"cause"`
	Admitted int64                    `json:"admitted"`
	Refused  int64                    `json:"refused"`
	Routes   map[string]incidentCount `json:"routes"`
	Boot     string                   `json:"boot"` // run of the replica that it belongs to
}

type incidentCount struct {
	Admitted int64 `json:"admitted"`
	Refused  int64 `json:"refused"`
}

func (g *Gateway) incidentOf(i limiter.Incident) incident {
	out := incident{Start: i.Start.UTC(), Cause: i.Cause, Routes: make(map[string]incidentCount, len(i.Routes)), Boot: g.cfg.Identity.Boot}
	if !i.End.IsZero() {
		end := i.End.UTC()
		out.End = &end
	}
	for route, n := range i.Routes {
		out.Routes[route] = incidentCount(n)
		out.Admitted += n.Admitted
		out.Refused += n.Refused
	}
	return out
}

// onIncident logs an incident when it begins and when it has ended, and hands it
// on to be kept. It does not block: one that finds no room is logged alone.
func (g *Gateway) onIncident(i limiter.Incident) {
	told := g.incidentOf(i)
	if told.End == nil {
		g.cfg.Log.Error("incident began: requests are decided without Redis", "cause", told.Cause, "start", told.Start)
	} else {
		g.cfg.Log.Warn("incident ended", "cause", told.Cause, "start", told.Start, "end", *told.End,
			"admitted", told.Admitted, "refused", told.Refused, "routes", len(told.Routes))
	}
	select {
	case g.incidents <- told:
	default:
	}
	g.ring()
}

// allIncidents are those of this run, the newest first, and then those of earlier ones.
func (g *Gateway) allIncidents() []incident {
	var out []incident
	for _, i := range g.limiter.Incidents() {
		out = append(out, g.incidentOf(i))
	}
	return append(out, g.earlier...)
}

// degradedBy is the cause of the incident that lasts, or "".
func (g *Gateway) degradedBy() string {
	if list := g.limiter.Incidents(); len(list) > 0 && list[0].End.IsZero() {
		return list[0].Cause
	}
	return ""
}

// readIncidents reads what earlier runs kept, the newest first. What cannot be
// read is left out: it is a record and decides nothing.
func readIncidents(dir string) ([]incident, error) {
	raw, err := os.ReadFile(filepath.Join(dir, incidentsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read incidents: %w", err)
	}
	byStart := map[string]int{}
	var list []incident
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, maxIncidentLine)
	for lines.Scan() {
		var i incident
		if json.Unmarshal(lines.Bytes(), &i) != nil || i.Start.IsZero() {
			continue
		}
		key := i.Boot + i.Start.String()
		if at, known := byStart[key]; known {
			list[at] = i // the end of one that began
			continue
		}
		byStart[key] = len(list)
		list = append(list, i)
	}
	if extra := len(list) - keptIncidents; extra > 0 {
		list = list[extra:]
	}
	newestFirst := make([]incident, len(list))
	for i := range list {
		newestFirst[len(list)-1-i] = list[i]
	}
	return newestFirst, nil
}

// keepState writes incidents and the number of live replicas into the state folder
// until ctx ends, apart from everything that must not wait for a disk.
func (g *Gateway) keepState(ctx context.Context) error {
	list, fault := g.earlier, ""
	note := func(err error) {
		if text := errorText(err); text != fault {
			fault = text
			g.cfg.Log.Warn("state folder", "error", text)
		}
	}
	for {
		select {
		case i := <-g.incidents:
			list = withIncident(list, i)
			note(writeIncidents(g.cfg.StateDir, list))
		case <-g.liveChanged:
			note(writeLive(g.cfg.StateDir, g.live.Load()))
		case <-ctx.Done():
			select {
			case i := <-g.incidents: // of the end
				note(writeIncidents(g.cfg.StateDir, withIncident(list, i)))
			default:
			}
			return ctx.Err()
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// withIncident puts one in front, or in the place of its beginning.
func withIncident(list []incident, i incident) []incident {
	out := make([]incident, 0, len(list)+1)
	out = append(out, i)
	for _, other := range list {
		if other.Boot != i.Boot || !other.Start.Equal(i.Start) {
			out = append(out, other)
		}
	}
	return out[:min(len(out), keptIncidents)]
}

// writeIncidents writes the list, the oldest first, one a line.
func writeIncidents(dir string, list []incident) error {
	if dir == "" {
		return nil
	}
	var b bytes.Buffer
	for i := len(list) - 1; i >= 0; i-- {
		line, err := json.Marshal(list[i])
		if err != nil {
			return fmt.Errorf("encode incident: %w", err)
		}
		b.Write(append(line, '\n'))
	}
	return writeFile(filepath.Join(dir, incidentsFile), b.Bytes(), 0o600)
}

// setLive takes in how many replicas are alive.
func (g *Gateway) setLive(n int) {
	if n < 1 || g.live.Swap(int64(n)) == int64(n) {
		return
	}
	select {
	case g.liveChanged <- struct{}{}:
	default:
	}
}

// liveState is the file that a start without Redis takes the number of replicas from.
type liveState struct {
	Live int64 `json:"live"`
}

func writeLive(dir string, n int64) error {
	if dir == "" {
		return nil
	}
	return writeFile(filepath.Join(dir, liveFile), fmt.Appendf(nil, "{\"live\":%d}\n", n), 0o600)
}

// readLive is the number of live replicas as last known; 1 when it is not.
func readLive(dir string) int64 {
	raw, err := os.ReadFile(filepath.Join(dir, liveFile))
	var s liveState
	if err != nil || json.Unmarshal(raw, &s) != nil || s.Live < 1 || s.Live > 1e6 {
		return 1
	}
	return s.Live
}

// restore reads what an earlier run left in the state folder.
func (g *Gateway) restore() {
	g.live.Store(1)
	if g.cfg.StateDir == "" {
		return
	}
	g.live.Store(readLive(g.cfg.StateDir))
	earlier, err := readIncidents(g.cfg.StateDir)
	if err != nil {
		g.cfg.Log.Warn("state folder", "error", strings.TrimSpace(err.Error()))
	}
	g.earlier = earlier
}
