package feed

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/policy"
)

// PutRecords writes records in their order and returns the place after the
// last. A record of which Redis has a newer one is passed over, and told by an
// error that wraps policy.ErrNewerRecord, when all others are in place. Each is
// announced, also one that Redis had already: it may have been written by a
// call that was cut off before it could announce it. Epoch is "" while the
// directory is being filled.
func (p *Publisher) PutRecords(ctx context.Context, records []policy.SignedRecord) (policy.Place, error) {
	var place policy.Place
	var newer string
	for first := true; first || len(records) > 0; first = false {
		n := min(len(records), recordsPerCall)
		var err error
		var w wrote
		if w, err = p.write(ctx, records[:n]); err == nil {
			place, err = p.announce(ctx, records[:n])
		}
		newer = cmp.Or(newer, w.newer)
		if err != nil {
			return policy.Place{}, fmt.Errorf("put %d directory records: %w", n, err)
		}
		records = records[n:]
	}
	if newer != "" {
		return place, fmt.Errorf("put the record of %s: %w", newer, policy.ErrNewerRecord)
	}
	return place, nil
}

// wrote is what became of records.
type wrote struct {
	written int    // that were not there
	newer   string // id of one of which Redis has a newer one
}

// write puts records, each by a script of its own. In a Cluster they lie on
// several servers.
func (p *Publisher) write(ctx context.Context, records []policy.SignedRecord) (w wrote, err error) {
	results, err := p.runEach(ctx, records, func(pipe redis.Pipeliner, k []string, args ...any) *redis.Cmd {
		return recordScript.EvalSha(ctx, pipe, k, args...)
	})
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		results, err = p.runEach(ctx, records, func(pipe redis.Pipeliner, k []string, args ...any) *redis.Cmd {
			return recordScript.Eval(ctx, pipe, k, args...)
		})
	}
	if err != nil {
		return wrote{}, err
	}
	for i, r := range results {
		switch r.Val() {
		case "written":
			w.written++
		case "older":
			w.newer = records[i].ID
		}
	}
	return w, nil
}

func (p *Publisher) runEach(ctx context.Context, records []policy.SignedRecord, run func(redis.Pipeliner, []string, ...any) *redis.Cmd) ([]*redis.Cmd, error) {
	if len(records) == 0 {
		return nil, nil
	}
	pipe := p.cfg.Client.Pipeline()
	results := make([]*redis.Cmd, len(records))
	for i, r := range records {
		results[i] = run(pipe, []string{p.keys.record(r.Kind, r.ID)}, r.Seq, ttlOf(r).Milliseconds(), r.Encode())
	}
	_, err := pipe.Exec(ctx)
	return results, err
}

// manyFrom is how many records of a kind share one entry. Fewer have one each,
// which gateways of older builds can read: a shared one makes them drop their
// whole cache, which is safe, and dear only if it happened at each change.
const manyFrom = 8

// entriesOf is what the stream of changes says of records: kind, field and
// value of each entry. A million new keys are 5000 entries, so that a replica
// that sleeps through an import still finds its place.
func entriesOf(records []policy.SignedRecord) []any {
	var out []any
	for len(records) > 0 {
		kind, n := records[0].Kind, 1
		for n < len(records) && records[n].Kind == kind {
			n++
		}
		ids := make([]string, n)
		for i, r := range records[:n] {
			ids[i] = r.ID
		}
		if n >= manyFrom {
			out = append(out, string(kind), "ids", strings.Join(ids, " "))
		} else {
			for _, id := range ids {
				out = append(out, string(kind), "id", id)
			}
		}
		records = records[n:]
	}
	return out
}

// announce adds entries for the records to the stream of changes and rings the bell.
func (p *Publisher) announce(ctx context.Context, records []policy.SignedRecord) (policy.Place, error) {
	args := append([]any{p.keys.bell(), longestStream}, entriesOf(records)...)
	reply, err := changeScript.Run(ctx, p.cfg.Client, []string{p.keys.directoryHead(), p.keys.directoryChanges()}, args...).StringSlice()
	if err != nil {
		return policy.Place{}, fmt.Errorf("announce: %w", err)
	}
	return placeOf(reply)
}

// placeOf reads epoch and seq.
func placeOf(reply []string) (policy.Place, error) {
	if len(reply) != 2 {
		return policy.Place{}, fmt.Errorf("script answered %d values, not 2", len(reply))
	}
	seq, err := strconv.ParseInt(reply[1], 10, 64)
	if err != nil {
		return policy.Place{}, fmt.Errorf("read change number: %w", err)
	}
	return policy.Place{Epoch: reply[0], Seq: seq}, nil
}

// ttlOf lets records go some time after they became final: from then on they
// say no more than their absence does.
func ttlOf(r policy.SignedRecord) time.Duration {
	var body struct {
		State string `json:"state"`
	}
	if json.Unmarshal(r.Body, &body) != nil {
		return 0
	}
	final := body.State == string(policy.KeyRevoked) || body.State == string(policy.KeyExpired)
	if r.Kind == policy.RecordTenant {
		final = body.State == string(policy.TenantDeleted)
	}
	if final {
		return recordTTL
	}
	return 0
}
