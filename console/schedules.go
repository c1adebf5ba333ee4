package console

import (
	"context"
	"time"
)

// ScheduleDraft publishes a draft as it stands now (etag) at a time, as its
// actor. Scheduling again replaces the earlier one. o carries note,
// confirmations and a canary; break-glass cannot be scheduled.
func (s *Policies) ScheduleDraft(ctx context.Context, actor Actor, id, etag string, at time.Time, o PublishOptions) (Schedule, error) {
	return Schedule{}, noProver()
}

// Unschedule takes a schedule back.
func (s *Policies) Unschedule(ctx context.Context, actor Actor, id string) error { return noProver() }

// Schedules lists all schedules by time, suspended ones included.
func (s *Policies) Schedules(ctx context.Context) ([]Schedule, error) { return nil, noProver() }
