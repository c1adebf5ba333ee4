package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// Replicas lists the heartbeats of the last hour, the longest silent first. At
// is the time of the last one by Redis' clock. What cannot be read as a
// heartbeat is logged and left out.
func (p *Publisher) Replicas(ctx context.Context) ([]policy.Heartbeat, error) {
	index, err := rosterScript.Run(ctx, p.cfg.Client, []string{p.keys.replicaIndex()}, maxReplicas, maxReplicaID).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("list replicas: %w", err)
	}
	if len(index) == 0 {
		return nil, nil
	}
	pipe := p.cfg.Client.Pipeline()
	gets := make([]*redis.StringCmd, len(index)/2)
	for i := range gets {
		gets[i] = pipe.GetRange(ctx, p.keys.replica(index[2*i]), 0, maxHeartbeat-1)
	}
	if _, err := pipe.Exec(ctx); err != nil && !isReply(err) {
		return nil, fmt.Errorf("read heartbeats: %w", err)
	}
	out := make([]policy.Heartbeat, 0, len(gets))
	for i, get := range gets {
		id := index[2*i]
		h, err := decodeHeartbeat(id, get)
		if err != nil {
			p.cfg.Log.WarnContext(ctx, "unreadable heartbeat", "replica", id, "error", err)
			continue
		}
		h.At = time.UnixMilli(number(index[2*i+1])).UTC()
		out = append(out, h)
	}
	return out, nil
}

func decodeHeartbeat(id string, get *redis.StringCmd) (policy.Heartbeat, error) {
	raw, err := get.Bytes()
	if err != nil {
		return policy.Heartbeat{}, err
	}
	var h policy.Heartbeat
	if err := json.Unmarshal(raw, &h); err != nil {
		return policy.Heartbeat{}, err
	}
	if h.ID != id {
		return policy.Heartbeat{}, fmt.Errorf("heartbeat of %q", h.ID)
	}
	if !printable(h.ID) || !printable(h.Boot) {
		return policy.Heartbeat{}, fmt.Errorf("heartbeat of %.70q, boot %.70q: no name", h.ID, h.Boot)
	}
	return h, nil
}

// printable reports whether a name of a replica or a run can be one: databases
// refuse to keep some characters, and with them whatever is kept at the same time.
func printable(name string) bool {
	for i := range len(name) {
		if name[i] < ' ' || name[i] > '~' {
			return false
		}
	}
	return len(name) <= maxReplicaID
}

// isReply reports whether Redis itself answered with an error (also "nil"), as
// against not being reached.
func isReply(err error) bool {
	if _, ok := errors.AsType[redis.Error](err); !ok {
		return false
	}
	// These are answers of a server that cannot serve.
	for _, prefix := range []string{"LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOAUTH", "WRONGPASS", "NOPERM", "BUSY", "ERR max number of clients"} {
		if strings.HasPrefix(err.Error(), prefix) {
			return false
		}
	}
	return true
}

// Usage returns the batches after a position ("" for all that are held) and the
// position after them, at most some hundreds a call: call again until there are
// none. It does not wait. After Redis lost the stream it begins anew by itself;
// usage.Live takes a batch once however often it is read.
func (p *Publisher) Usage(ctx context.Context, after string) ([]usage.Batch, string, error) {
	from := "-"
	if after != "" {
		if !streamID(after) {
			return nil, "", fmt.Errorf("read usage: position %q is none", after)
		}
		from = "(" + after
	}
	entries, err := p.cfg.Client.XRangeN(ctx, p.keys.usageLive(), from, "+", usagePerRequest).Result()
	if err != nil {
		return nil, after, fmt.Errorf("read usage: %w", err)
	}
	if len(entries) == 0 {
		next, err := p.usageRestart(ctx, after)
		return nil, next, err
	}
	batches := make([]usage.Batch, 0, len(entries))
	for _, e := range entries {
		after = e.ID
		b, err := decodeBatch(e.Values)
		if err != nil {
			p.cfg.Log.WarnContext(ctx, "unreadable usage batch", "entry", e.ID, "error", err)
			continue
		}
		batches = append(batches, b)
	}
	return batches, after, nil
}

// usageRestart goes back to the begin when the newest entry lies before the
// position: Redis was replaced, and its clock is behind the old one's.
func (p *Publisher) usageRestart(ctx context.Context, after string) (string, error) {
	if after == "" {
		return "", nil
	}
	last, err := p.cfg.Client.XRevRangeN(ctx, p.keys.usageLive(), "+", "-", 1).Result()
	if err != nil {
		return after, fmt.Errorf("read newest usage: %w", err)
	}
	if len(last) == 1 && streamBefore(last[0].ID, after) {
		return "", nil
	}
	return after, nil
}

func decodeBatch(values map[string]any) (usage.Batch, error) {
	raw, _ := values["batch"].(string)
	var b usage.Batch
	if err := json.Unmarshal([]byte(raw), &b); err != nil {
		return usage.Batch{}, fmt.Errorf("decode batch: %w", err)
	}
	if len(b.Rows) > usage.MaxRows {
		return usage.Batch{}, fmt.Errorf("batch of %d rows", len(b.Rows))
	}
	return b, nil
}

// parseStreamID reads "ms-n".
func parseStreamID(id string) (ms, n uint64, ok bool) {
	left, right, found := strings.Cut(id, "-")
	ms, err1 := strconv.ParseUint(left, 10, 64)
	n, err2 := strconv.ParseUint(right, 10, 64)
	return ms, n, found && err1 == nil && err2 == nil
}

func streamID(id string) bool {
	_, _, ok := parseStreamID(id)
	return ok
}

func streamBefore(a, b string) bool {
	am, an, _ := parseStreamID(a)
	bm, bn, _ := parseStreamID(b)
	return am < bm || am == bm && an < bn
}
