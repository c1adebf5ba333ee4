package web

import (
	"context"
	"strings"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// sourcesKept is how far back a key's page lists who used it.
const sourcesKept = 90 * 24 * time.Hour

// sourcesShown bounds the sources of one key on its page.
const sourcesShown = 50

// keyUses is what is known of the use of some keys, and how current that is.
type keyUses struct {
	uses map[string]console.KeyUse
	age  console.UseAge
}

// usesOf asks who uses keys, and how current that is. Where nobody can tell, all
// of it is unknown.
func (s *Server) usesOf(ctx context.Context, kids ...string) (keyUses, error) {
	if s.KeyUse == nil {
		return keyUses{}, nil
	}
	uses, age, err := s.KeyUse.Uses(ctx, kids)
	return keyUses{uses, age}, err
}

// current reports whether what is not known to be used is not used.
func (u keyUses) current() bool { return !u.age.Through.IsZero() && !u.age.Behind }

// unused is the word for something that was made at a time and is not known to
// have been used: it may have been, before anybody counted.
func (u keyUses) unused(created time.Time) string {
	switch {
	case !u.current():
		return ui.Unknown
	case u.age.Since.IsZero() || created.Before(u.age.Since.Add(-time.Minute)):
		return "not since " + u.age.Since.UTC().Format(time.DateOnly)
	}
	return "never"
}

// cell is the use of one key, which was made at a time, in words.
func (u keyUses) cell(kid string, created time.Time) views.KeyUseCell {
	k, ok := u.uses[kid]
	c := views.KeyUseCell{Word: u.unused(created), Requests: ui.Int(k.Requests24h), Refused: ui.Int(k.Refused24h)}
	if !u.current() {
		if c.Requests, c.Refused = ui.Unknown, ui.Unknown; ok {
			c.Behind = true
		}
	}
	if !ok {
		return c
	}
	c.First, c.Last, c.RefusedAt = at(k.FirstUsedAt), at(k.LastUsedAt), at(k.RefusedAt)
	c.Source = sourceText(k.LastNetwork, k.LastAgent)
	return c
}

// effect is what an act on a key means for whoever uses it, in numbers.
func (u keyUses) effect(now time.Time, kid string) string {
	k, ok := u.uses[kid]
	switch {
	case !u.current() && (!ok || k.LastUsedAt == nil):
		return "How much it is used is unknown now."
	case !ok || k.LastUsedAt == nil:
		return "It is not known to have been used."
	case !u.current():
		return "It was last known to be used " + ui.Ago(now, *k.LastUsedAt) + "; what came since is unknown."
	}
	text := "It sent " + counted(int(k.Requests24h), "request") + " in the last 24 hours, the last one " + ui.Ago(now, *k.LastUsedAt)
	if from := sourceText(k.LastNetwork, k.LastAgent); from != "" {
		text += " from " + from
	}
	return text + "."
}

// useAgeText says how current what is known of the use of keys is.
func useAgeText(now time.Time, age console.UseAge) string {
	silent := ""
	if len(age.Silent) > 0 {
		silent += "; nothing is heard from " + strings.Join(age.Silent, ", ")
	}
	if m := age.Missing; m != nil {
		silent += "; what " + m.Replica + " saw from " + ui.Absolute(m.From) + " to " + ui.Absolute(m.To) + " is lost"
	}
	switch {
	case age.Through.IsZero():
		return "use is unknown: no gateway has told of it yet"
	case age.Behind:
		return "use is known only up to " + ui.Ago(now, age.Through) + ": what came since is unknown" + silent
	default:
		return "use known up to " + ui.Ago(now, age.Through) + silent
	}
}

// sourceText is a network and what called from it, in words.
func sourceText(network, agent string) string {
	switch {
	case network == "" && agent == "":
		return ""
	case network == "":
		return "other sources"
	case agent == "":
		return network
	}
	return network + " · " + agent
}

// sourceRows are sources as tables show them.
func sourceRows(list []console.KeySource) []views.SourceRow {
	var rows []views.SourceRow
	for _, k := range list {
		row := views.SourceRow{Network: k.Network, Agent: k.Agent, First: k.FirstSeen, Last: k.LastSeen,
			Requests: ui.Int(k.Requests), Refused: ui.Int(k.Refused)}
		if row.Network == "" {
			row.Network = "all others"
		}
		rows = append(rows, row)
	}
	return rows
}
