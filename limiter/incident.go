package limiter

import "time"

// Incident is a span in which requests were decided without the store.
type Incident struct {
	Start, End time.Time // End is zero while it lasts
	Cause      string    // of the first failure
	Routes     map[string]IncidentCount
}

// IncidentCount counts the decisions of one route during an incident.
type IncidentCount struct{ Admitted, Refused int64 }

// Incidents are the latest ones, the newest first, at most 32.
func (l *Limiter) Incidents() []Incident { return nil }
