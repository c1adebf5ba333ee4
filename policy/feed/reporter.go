package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

const (
	goneAfter       = time.Minute // a replica that is silent for longer is not counted
	heartbeatTTL    = time.Hour
	usageTTL        = time.Hour
	usageEntries    = 20_000
	usageBytes      = 63 << 20 // with the entry that is not counted, below 64 MiB
	maxHeartbeat    = 16 << 10
	maxReplicas     = 5000
	maxReplicaID    = 64 // bytes
	usagePerRequest = 500
)

// Reporter carries a replica's heartbeats and live counts to the console. It is
// safe for concurrent use.
type Reporter struct {
	cfg  Config
	keys keys
}

// NewReporter checks cfg and lists everything that is wrong with it.
func NewReporter(cfg Config) (*Reporter, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("feed reporter: %w", err)
	}
	return &Reporter{cfg: cfg, keys: keys{cfg.Namespace}}, nil
}

// Beat writes a heartbeat. It returns the number of replicas that are not gone
// (this one included) and Redis' clock in UTC.
func (r *Reporter) Beat(ctx context.Context, h policy.Heartbeat) (live int, redisNow time.Time, err error) {
	if h.ID == "" || h.ID == "index" {
		return 0, time.Time{}, fmt.Errorf("beat: replica id %q", h.ID)
	}
	raw, err := json.Marshal(h)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("encode heartbeat: %w", err)
	}
	if err := r.cfg.Client.Set(ctx, r.keys.replica(h.ID), raw, heartbeatTTL).Err(); err != nil {
		return 0, time.Time{}, fmt.Errorf("write heartbeat: %w", err)
	}
	reply, err := beatScript.Run(ctx, r.cfg.Client, []string{r.keys.replicaIndex()},
		h.ID, goneAfter.Milliseconds(), heartbeatTTL.Milliseconds()).Slice()
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("index heartbeat: %w", err)
	}
	return readBeat(reply)
}

func readBeat(reply []any) (int, time.Time, error) {
	if len(reply) != 2 {
		return 0, time.Time{}, fmt.Errorf("index heartbeat: script answered %d values, not 2", len(reply))
	}
	live, isInt := reply[0].(int64)
	at, isText := reply[1].(string)
	if !isInt || !isText {
		return 0, time.Time{}, errors.New("index heartbeat: script answered other types")
	}
	us, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("index heartbeat: read time: %w", err)
	}
	return int(live), time.UnixMicro(us).UTC(), nil
}

// SendUsage adds a batch to the stream of live counts. The same batch may be
// sent again after an error: the reader takes it once.
func (r *Reporter) SendUsage(ctx context.Context, b usage.Batch) error {
	raw, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("encode usage batch: %w", err)
	}
	err = usageScript.Run(ctx, r.cfg.Client, []string{r.keys.usageLive()},
		b.Replica, b.Boot, raw, usageEntries, usageBytes, usageTTL.Milliseconds()).Err()
	if err != nil {
		return fmt.Errorf("send usage batch %d: %w", b.Seq, err)
	}
	return nil
}
