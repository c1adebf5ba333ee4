package usage

import "time"

// RouteTraffic is what went over one route in the last hour, or in as much of it
// as is known.
type RouteTraffic struct {
	Requests int64 // admitted and refused
	Tenants  int64 // that were told apart
	Peak     int64 // cost in the busiest minute of the busiest tenant that is told apart
}

// RouteTraffic tells of each route that was met, and how much of the hour is known.
func (l *Live) RouteTraffic() (map[string]RouteTraffic, time.Duration) {
	return map[string]RouteTraffic{}, 0
}
