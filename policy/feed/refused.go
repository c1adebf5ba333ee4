package feed

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// refusedTTL is how long a report of refused subjects is kept: raw identifiers are in
// it, so not for long.
const refusedTTL = 2 * time.Minute

// RecordRefusals is the kind of a change that concerns no record: the state of subjects
// in a group of limiter.DenyGroup was changed, and its id is the group's number.
const RecordRefusals policy.RecordKind = "refusals"

func (k keys) refused(replica string) string { return k.ns + ":usage:refused:" + replica }

// SendRefused tells whom this replica refused lately, as usage.EncodeRefused wrote it,
// instead of what it told before.
func (r *Reporter) SendRefused(ctx context.Context, replica string, body []byte) error {
	if replica == "" || len(replica) > maxReplicaID || len(body) == 0 || len(body) > usage.MaxRefusedBody {
		return fmt.Errorf("send refused subjects: replica %.70q, %d bytes", replica, len(body))
	}
	if err := r.cfg.Client.Set(ctx, r.keys.refused(replica), body, refusedTTL).Err(); err != nil {
		return fmt.Errorf("send refused subjects: %w", err)
	}
	return nil
}

// Refused returns what the replicas named last told of whom they refused; those that
// told nothing for two minutes, or nonsense, are left out.
func (p *Publisher) Refused(ctx context.Context, replicas []string) ([]*usage.RefusedReport, error) {
	if len(replicas) > maxReplicas {
		replicas = replicas[:maxReplicas]
	}
	pipe := p.cfg.Client.Pipeline()
	bodies := make([]*redis.StringCmd, 0, len(replicas))
	for _, id := range replicas {
		// A key that holds more than a gateway writes is not fetched whole.
		bodies = append(bodies, pipe.GetRange(ctx, p.keys.refused(id), 0, usage.MaxRefusedBody))
	}
	if len(bodies) == 0 {
		return nil, nil
	}
	if _, err := pipe.Exec(ctx); err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("read refused subjects: %w", err)
	}
	var out []*usage.RefusedReport
	for i, b := range bodies {
		body, err := b.Bytes()
		if err != nil || len(body) == 0 {
			continue
		}
		report, err := usage.DecodeRefused(body)
		if err != nil || report.Replica != replicas[i] {
			p.cfg.Log.WarnContext(ctx, "unreadable report of refused subjects", "replica", replicas[i], "error", err)
			continue
		}
		out = append(out, report)
	}
	return out, nil
}

// ForgetRefusals announces that the state of some subjects without a tenant was changed:
// gateways then ask for them anew. Groups are limiter.DenyGroup's. It returns the
// directory's place after that.
func (p *Publisher) ForgetRefusals(ctx context.Context, groups []int) (policy.Place, error) {
	args := []any{p.keys.bell(), longestStream}
	for _, g := range groups {
		args = append(args, string(RecordRefusals), "id", strconv.Itoa(g))
	}
	reply, err := changeScript.Run(ctx, p.cfg.Client, []string{p.keys.directoryHead(), p.keys.directoryChanges()}, args...).StringSlice()
	if err != nil {
		return policy.Place{}, fmt.Errorf("announce forgotten refusals: %w", err)
	}
	return placeOf(reply)
}
