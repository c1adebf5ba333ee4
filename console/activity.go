package console

import (
	"context"
	"time"

	"github.com/headgate/headgate/usage"
)

// collectEvery is how often live counts are read.
const collectEvery = time.Second

// Activity is the live traffic of the last hour: in memory, not the record.
type Activity struct {
	d    Deps
	live *usage.Live
}

// NewActivity returns the activity service. Its Run must run for Live to move.
func NewActivity(d Deps) *Activity {
	d = d.withDefaults()
	return &Activity{d: d, live: usage.NewLive(usage.LiveConfig{Now: d.Now})}
}

// Live is the last hour.
func (s *Activity) Live() *usage.Live { return s.live }

// Names maps tenant ids to names, for those that exist.
func (s *Activity) Names(ctx context.Context, ids []string) (map[string]string, error) {
	return s.d.tenantNames(ctx, ids)
}

// Run collects batches until ctx ends. At its start it reads what Redis still
// has of the last hour.
func (s *Activity) Run(ctx context.Context) error {
	after, down := "", false
	for {
		next, err := s.collect(ctx, after)
		if err != nil && ctx.Err() == nil && !down {
			s.d.Log.WarnContext(ctx, "live counts cannot be read", "error", err)
		}
		after, down = next, err != nil
		if !pause(ctx, collectEvery) {
			return nil
		}
	}
}

// collect applies everything after a place and returns the new place.
func (s *Activity) collect(ctx context.Context, after string) (string, error) {
	for {
		ask, cancel := context.WithTimeout(ctx, 2*time.Second)
		batches, next, err := s.d.Feed.Usage(ask, after)
		cancel()
		if err != nil {
			return after, err
		}
		for _, b := range batches {
			s.live.Apply(b)
		}
		if next == after || len(batches) == 0 {
			return next, nil
		}
		after = next
	}
}
