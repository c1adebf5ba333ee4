package console

import (
	"context"
	"fmt"
	"strconv"

	"github.com/headgate/headgate/policy"
)

// OutboxRefusals has gateways forget what they remember of the refusals of a group of
// subjects; Ref is limiter.DenyGroup's number. It names no subject.
const OutboxRefusals OutboxKind = "refusals"

// RefusalFeed is a Feed that can have gateways forget refusals.
type RefusalFeed interface {
	// ForgetRefusals announces groups and returns the directory's place after that.
	ForgetRefusals(ctx context.Context, groups []int) (policy.Place, error)
}

// sendRefusals announces groups of subjects among the changes of the directory.
func (r *Relay) sendRefusals(ctx context.Context, rows []OutboxRow) error {
	feed, ok := r.d.Feed.(RefusalFeed)
	if len(rows) == 0 {
		return nil
	}
	if !ok { // nobody to tell
		return r.finish(ctx, rows, policy.Place{})
	}
	var groups []int
	for _, row := range rows {
		group, err := strconv.Atoi(row.Ref)
		if err != nil {
			return fmt.Errorf("outbox row %d names group %q: %w", row.ID, row.Ref, err)
		}
		groups = append(groups, group)
	}
	ask, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	place, err := feed.ForgetRefusals(ask, groups)
	if err != nil {
		return fmt.Errorf("announce forgotten refusals: %w", err)
	}
	if r.directoryLost(place) {
		return fmt.Errorf("the directory was lost while %d groups were announced", len(groups))
	}
	if err := r.finish(ctx, rows, place); err != nil {
		return err
	}
	r.place = place
	return nil
}
