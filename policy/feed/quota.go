package feed

import (
	"context"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/policy"
)

const (
	// countersPerCall keeps one script below a millisecond or two.
	countersPerCall = 200
	// markTTL is how long a lane's mark stays without a console that keeps it up.
	markTTL = 60 * 24 * time.Hour
	// rebuildTTL is how long a rebuilding may take.
	rebuildTTL = time.Minute
)

var (
	//go:embed quota.lua
	quotaSource string
	//go:embed quotamark.lua
	quotaMarkSource string
)

//nolint:gochecknoglobals // embedded text with its hash; nothing writes to it
var (
	quotaScript     = redis.NewScript(quotaSource)
	quotaMarkScript = redis.NewScript(quotaMarkSource)
)

// quotaMark is the key that lets gateways believe the counters of a lane's recorded
// quotas. It is there from when the console has rebuilt them until Redis loses it with them.
func (k keys) quotaMark(lane int) string { return k.ns + ":l:{" + strconv.Itoa(lane) + "}:k" }

// quotaRebuild is the key of the note that somebody rebuilds a lane's counters.
func (k keys) quotaRebuild(lane int) string { return k.ns + ":l:{" + strconv.Itoa(lane) + "}:b" }

// quotaCounter is the key of a counter, as the limiter's store names it.
func (k keys) quotaCounter(c policy.QuotaCounter) string {
	hash := policy.LimitHash(policy.QuotaID)
	var b [8]byte
	for i := range b {
		b[i] = byte(hash >> (56 - 8*i))
	}
	return k.ns + ":l:{" + strconv.Itoa(policy.TenantLane(c.Tenant)) + "}:q:" + hex.EncodeToString(b[:]) + ":" +
		strconv.FormatInt(c.Start.UnixMicro(), 10) + ":t:" + c.Tenant
}

// QuotaMarks is what the lanes' marks say, by lane; "" where there is none.
func (p *Publisher) QuotaMarks(ctx context.Context) ([]string, error) {
	names := make([]string, policy.TenantLanes)
	for lane := range names {
		names[lane] = p.keys.quotaMark(lane)
	}
	marks, err := p.texts(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("read marks of quotas: %w", err)
	}
	return marks, nil
}

// BeginQuotas notes in lanes that somebody rebuilds their counters under a name of his own.
// Who loses the counters loses the note with them, so that MarkQuotas finds out.
func (p *Publisher) BeginQuotas(ctx context.Context, lanes []int, name string) error {
	if err := checkLanes(lanes); err != nil || len(lanes) == 0 {
		return err
	}
	pipe := p.cfg.Client.Pipeline()
	for _, lane := range lanes {
		pipe.Set(ctx, p.keys.quotaRebuild(lane), name, rebuildTTL)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("begin to rebuild quotas: %w", err)
	}
	return nil
}

// MarkQuotas leaves marks in the lanes that still have the note of that name, and returns those
// that had lost it meanwhile: their counters have to be rebuilt once more. A mark holds a word,
// which tells for people when it was left, and is gone 60 days after it was left or kept.
func (p *Publisher) MarkQuotas(ctx context.Context, lanes []int, name, word string) (lost []int, err error) {
	if err := checkLanes(lanes); err != nil {
		return nil, err
	}
	for _, lane := range lanes {
		keys := []string{p.keys.quotaMark(lane), p.keys.quotaRebuild(lane)}
		done, err := quotaMarkScript.Run(ctx, p.cfg.Client, keys, name, word, markTTL.Milliseconds()).Int()
		if err != nil {
			return nil, fmt.Errorf("mark quotas of lane %d: %w", lane, err)
		}
		if done != 1 {
			lost = append(lost, lane)
		}
	}
	return lost, nil
}

// KeepQuotas lets marks that are there stay for 60 days from now on.
func (p *Publisher) KeepQuotas(ctx context.Context, lanes []int) error {
	if err := checkLanes(lanes); err != nil || len(lanes) == 0 {
		return err
	}
	pipe := p.cfg.Client.Pipeline()
	for _, lane := range lanes {
		pipe.PExpire(ctx, p.keys.quotaMark(lane), markTTL)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("keep marks of quotas: %w", err)
	}
	return nil
}

func checkLanes(lanes []int) error {
	for _, lane := range lanes {
		if lane < 0 || lane >= policy.TenantLanes {
			return fmt.Errorf("lane %d is none: 0 to %d", lane, policy.TenantLanes-1)
		}
	}
	return nil
}

// QuotaUnits is what Redis counts, in the order of the counters, whose own Units are not
// looked at; policy.AbsentUnits for one that is not there or holds no count.
func (p *Publisher) QuotaUnits(ctx context.Context, of []policy.QuotaCounter) ([]int64, error) {
	names := make([]string, len(of))
	for i, c := range of {
		names[i] = p.keys.quotaCounter(c)
	}
	texts, err := p.texts(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("read counters of quotas: %w", err)
	}
	units := make([]int64, len(of))
	for i, text := range texts {
		units[i] = countOf(text)
	}
	return units, nil
}

// RaiseQuotas brings counters up to their Units; one that is higher stays. It returns
// what they hold then. After an error some may be raised: repeat it.
func (p *Publisher) RaiseQuotas(ctx context.Context, to []policy.QuotaCounter) ([]int64, error) {
	return p.correctQuotas(ctx, "raise", to)
}

// LowerQuotas takes Units away from counters, down to 0, and returns what they hold then;
// policy.AbsentUnits for one that is not there. After an error some may be lowered: read them
// before it is repeated.
func (p *Publisher) LowerQuotas(ctx context.Context, by []policy.QuotaCounter) ([]int64, error) {
	return p.correctQuotas(ctx, "lower", by)
}

func (p *Publisher) correctQuotas(ctx context.Context, how string, counters []policy.QuotaCounter) ([]int64, error) {
	for _, c := range counters {
		if c.Units < 0 || c.Units >= policy.MaxUnits {
			return nil, fmt.Errorf("%s counter of tenant %s: %d units are out of range: 0 to 2^53-1", how, c.Tenant, c.Units)
		}
	}
	lanes := map[int][]int{} // places in counters
	for i, c := range counters {
		lane := policy.TenantLane(c.Tenant)
		lanes[lane] = append(lanes[lane], i)
	}
	out := make([]int64, len(counters))
	for _, places := range lanes {
		for len(places) > 0 {
			n := min(len(places), countersPerCall)
			if err := p.correctLane(ctx, how, counters, places[:n], out); err != nil {
				return nil, err
			}
			places = places[n:]
		}
	}
	return out, nil
}

// correctLane corrects the counters at some places, which lie in one lane.
func (p *Publisher) correctLane(ctx context.Context, how string, counters []policy.QuotaCounter, places []int, out []int64) error {
	names, args := make([]string, len(places)), []any{how}
	for i, at := range places {
		c := counters[at]
		ends := int64(0)
		if !c.End.IsZero() {
			ends = c.End.UnixMicro()
		}
		names[i], args = p.keys.quotaCounter(c), append(args, c.Units, ends)
	}
	answer, err := quotaScript.Run(ctx, p.cfg.Client, names, args...).StringSlice()
	if err != nil {
		return fmt.Errorf("%s counters of quotas: %w", how, err)
	}
	if len(answer) != len(places) {
		return fmt.Errorf("%s counters of quotas: %d answers for %d counters", how, len(answer), len(places))
	}
	for i, at := range places {
		out[at] = countOf(answer[i])
	}
	return nil
}

// texts reads strings, "" for what is not there or is none.
func (p *Publisher) texts(ctx context.Context, names []string) ([]string, error) {
	out := make([]string, len(names))
	for from := 0; from < len(names); from += countersPerCall * 5 {
		part := names[from:min(len(names), from+countersPerCall*5)]
		pipe := p.cfg.Client.Pipeline()
		gets := make([]*redis.StringCmd, len(part))
		for i, name := range part {
			gets[i] = pipe.GetRange(ctx, name, 0, 63) // nothing that a console or a gateway wrote is longer
		}
		if _, err := pipe.Exec(ctx); err != nil && !isReply(err) {
			return nil, err
		}
		for i, get := range gets {
			text, err := get.Result()
			if err != nil && !errors.Is(err, redis.Nil) && !isReply(err) {
				return nil, err
			}
			out[from+i] = text
		}
	}
	return out, nil
}

// countOf reads a counter as gateways do: what is no whole number up to 2^53-1 is none.
func countOf(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n >= policy.MaxUnits {
		return policy.AbsentUnits
	}
	return n
}
