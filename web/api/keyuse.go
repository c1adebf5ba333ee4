package api

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
)

// maxSources bounds the sources of one answer.
const maxSources = 1000

// UseAge says how current what is known of the use of keys is.
type UseAge struct {
	Through *time.Time `json:"through,omitempty" doc:"Every gateway has told what it saw up to then; absent: nothing came in yet"`
	Since   *time.Time `json:"since,omitempty" doc:"Since when use is known at all"`
	Behind  bool       `json:"behind" doc:"That is more than a minute ago: nobody can tell never used from not heard of yet"`
	Silent  []string   `json:"silent" doc:"Gateways that do not tell"`
}

func useAgeOf(a console.UseAge) UseAge {
	out := UseAge{Behind: a.Behind, Silent: orEmpty(a.Silent)}
	if !a.Through.IsZero() {
		out.Through = &a.Through
	}
	if !a.Since.IsZero() {
		out.Since = &a.Since
	}
	return out
}

// KeySource is one source that uses a key version.
type KeySource struct {
	Network   string     `json:"network" doc:"/24 or /48; empty, with an empty agent, for all beyond what is told apart" example:"198.51.100.0/24"`
	Agent     string     `json:"agent" doc:"Product names of the user agent"`
	FirstSeen time.Time  `json:"first_seen"`
	LastSeen  time.Time  `json:"last_seen" doc:"Whether the key was accepted or not"`
	UsedAt    *time.Time `json:"used_at,omitempty" doc:"Accepted for the last time"`
	RefusedAt *time.Time `json:"refused_at,omitempty" doc:"Not accepted for the last time"`
	Requests  int64      `json:"requests"`
	Limited   int64      `json:"limited" doc:"Of them: refused by a limit"`
	Refused   int64      `json:"refused" doc:"Of them: the key was not accepted"`
}

func keySourceOf(s console.KeySource) KeySource {
	return KeySource{Network: s.Network, Agent: s.Agent, FirstSeen: s.FirstSeen, LastSeen: s.LastSeen, UsedAt: s.UsedAt,
		RefusedAt: s.RefusedAt, Requests: s.Requests, Limited: s.Limited, Refused: s.Refused}
}

// keySources is who uses a key version.
type keySources struct {
	Use   UseAge      `json:"use"`
	Items []KeySource `json:"items" nullable:"false" doc:"The last seen first, 1000 at most"`
}

func (a *API) listKeySources(ctx context.Context, in *keySourcesIn) (*Body[keySources], error) {
	if _, err := a.Keys.Get(ctx, in.KID); err != nil {
		return nil, err
	}
	since := in.Since
	if since.IsZero() {
		since = a.Now().Add(-7 * 24 * time.Hour)
	}
	out := &Body[keySources]{keySources{Use: UseAge{Behind: true, Silent: []string{}}, Items: []KeySource{}}}
	if a.KeyUse == nil {
		return out, nil
	}
	sources, age, err := a.KeyUse.Sources(ctx, in.KID, since, maxSources)
	if err != nil {
		return nil, err
	}
	out.Body.Use = useAgeOf(age)
	for _, s := range sources {
		out.Body.Items = append(out.Body.Items, keySourceOf(s))
	}
	return out, nil
}
