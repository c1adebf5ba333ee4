package web

import (
	"math"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// sampleStep is how often the console keeps a sample of its health.
const sampleStep = 10 * time.Second

// healthLine draws samples of health over a range. Without a sample, and for
// what could not be measured, there is a gap.
func healthLine(p ui.StatProps, samples []console.Sample, from, to time.Time, step time.Duration, of func(console.Sample) float64) ui.StatProps {
	step = max(step, sampleStep)
	p.From, p.Step = from.Truncate(step), step
	p.Values = make([]float64, int(to.Sub(p.From)/step))
	for i := range p.Values {
		p.Values[i] = math.NaN()
	}
	for _, x := range samples {
		i := int(x.At.Sub(p.From) / step)
		if x.At.Before(p.From) || i >= len(p.Values) || !x.RedisUp {
			continue
		}
		p.Values[i] = of(x)
	}
	return p
}

func roundTrip(x console.Sample) float64 { return float64(x.RTT) / float64(time.Millisecond) }

func redisStat(now time.Time, h console.Health) ui.StatProps {
	p := ui.StatProps{Label: "Redis round trip", Note: "from the console, " + ui.Ago(now, h.At), Value: ui.Unknown}
	switch {
	case h.At.IsZero():
		p.Note = "not measured yet"
	case !h.RedisUp:
		p.Value, p.Tone, p.Note = "unreachable", "bad", "since "+h.RedisSince.UTC().Format("15:04:05")
	default:
		p.Value = ui.Millis(h.RedisRTT)
	}
	return p
}

// hazardRows are the rows of what endangers the limits, and the age of the look.
func hazardRows(now time.Time, h console.Health) ([]views.HazardRow, string) {
	age := "not looked at yet"
	if !h.HazardsAt.IsZero() {
		age = "looked at " + ui.Ago(now, h.HazardsAt)
	}
	tones := map[policy.Severity]string{policy.SeverityRed: "bad", policy.SeverityAmber: "warn", policy.SeverityNote: ""}
	rows := make([]views.HazardRow, len(h.Hazards))
	for i, z := range h.Hazards {
		rows[i] = views.HazardRow{Tone: tones[z.Severity], Label: string(z.Severity), Server: z.Server, Text: z.Text, Mend: z.Mend}
	}
	return rows, age
}
