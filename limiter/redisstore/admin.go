package redisstore

import (
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

//go:embed admin.lua
var adminSource string

// asksPerCall bounds the operations of one call, so that a script stays short.
const asksPerCall = 128

// Admin reads and changes single limits of single subjects, as people ask for it. It
// is apart from Store: it has its own client, whose patience is longer than that of
// a decision, and none of what combines decisions. It is safe for concurrent use.
type Admin struct {
	client    redis.UniversalClient
	keys      *keyspace
	namespace string
	script    script
	repair    script
}

// NewAdmin makes an Admin on client. Namespace and Deployment have to be those of the
// gateways.
func NewAdmin(client redis.UniversalClient, opts Options) *Admin {
	opts = opts.withDefaults()
	return &Admin{
		client: client, keys: newKeyspace(opts.Namespace, opts.Deployment), namespace: opts.Namespace,
		script: newScript(clockSource + rowsSource + countsSource + adminSource),
		repair: newScript(clockSource + rowsSource + countsSource + repairSource),
	}
}

// operation is one of admin.lua's.
type operation struct {
	limiter.Ask
	what byte
	more string
}

// lines is how many lines the script answers.
func (o *operation) lines() int {
	if strings.IndexByte("BSQ", o.what) >= 0 {
		return 1
	}
	return 2
}

// readOf is the operation that reads an Ask.
func readOf(a limiter.Ask) operation {
	switch a.Part {
	case limiter.PartSlot:
		return operation{Ask: a, what: 'S'}
	case limiter.PartQuota:
		return operation{Ask: a, what: 'Q'}
	default:
		return operation{Ask: a, what: 'B'}
	}
}

// Inspect tells what is held, in the order of asks, as decisions would read it. It
// changes nothing. In a Cluster the lanes are read one after the other.
func (a *Admin) Inspect(ctx context.Context, asks []limiter.Ask) ([]limiter.Held, error) {
	ops := make([]operation, len(asks))
	for i := range asks {
		ops[i] = readOf(asks[i])
	}
	answers, err := a.do(ctx, "inspect", ops)
	if err != nil {
		return nil, err
	}
	held := make([]limiter.Held, len(answers))
	for i := range answers {
		held[i] = answers[i].Before
	}
	return held, nil
}

// Adjust moves levels of buckets between bounds. Doing it twice is doing it once.
func (a *Admin) Adjust(ctx context.Context, adjustments []limiter.Adjustment) ([]limiter.Adjusted, error) {
	ops := make([]operation, len(adjustments))
	for i := range adjustments {
		one := &adjustments[i]
		floor, ceiling, err := one.Units()
		if err != nil {
			return nil, storeError("adjust", err)
		}
		ops[i] = operation{Ask: one.Ask, what: 'A', more: strconv.FormatInt(floor, 10) + " " + strconv.FormatInt(ceiling, 10)}
	}
	return a.do(ctx, "adjust", ops)
}

// Clear drops what is held: a bucket is then full, places are free, and a counter is
// gone (a ledger's owner counts it again).
func (a *Admin) Clear(ctx context.Context, asks []limiter.Ask) ([]limiter.Adjusted, error) {
	ops := make([]operation, len(asks))
	for i := range asks {
		ops[i] = operation{Ask: asks[i], what: 'D'}
		if asks[i].Part == limiter.PartCharge {
			ops[i].what = 'C'
		}
	}
	return a.do(ctx, "clear", ops)
}

// EndLeases ends leases of a concurrency limit by name; unknown ones change nothing.
// Whoever holds one goes on, uncounted, until its request ends; a renewal takes a
// place again if there is one.
func (a *Admin) EndLeases(ctx context.Context, ask limiter.Ask, names []string) (limiter.Adjusted, error) {
	if len(names) > limiter.MaxLeases {
		return limiter.Adjusted{}, storeError("end leases", fmt.Errorf("%w: %d leases, at most %d", limiter.ErrCharges, len(names), limiter.MaxLeases))
	}
	ask.Part = limiter.PartSlot
	coded := make([]string, len(names))
	for i := range names {
		coded[i] = hex.EncodeToString([]byte(names[i]))
	}
	done, err := a.do(ctx, "end leases", []operation{{Ask: ask, what: 'E', more: strings.Join(coded, " ")}})
	if err != nil {
		return limiter.Adjusted{}, err
	}
	return done[0], nil
}

// do makes the operations, those of a lane together where a Cluster keeps lanes apart.
func (a *Admin) do(ctx context.Context, action string, ops []operation) ([]limiter.Adjusted, error) {
	out := make([]limiter.Adjusted, len(ops))
	for _, mine := range a.shares(ops) {
		for part := range slices.Chunk(mine, asksPerCall) {
			if err := a.call(ctx, ops, part, out); err != nil {
				return nil, storeError(action, err)
			}
		}
	}
	return out, nil
}

// shares are the indexes of what may go into one call.
func (a *Admin) shares(ops []operation) [][]int {
	_, clustered := a.client.(*redis.ClusterClient)
	at := map[int]int{}
	var out [][]int
	for i := range ops {
		lane := 0
		if clustered {
			lane = a.keys.lane(ops[i].Row)
		}
		share, known := at[lane]
		if !known {
			share = len(out)
			at[lane], out = share, append(out, nil)
		}
		out[share] = append(out[share], i)
	}
	return out
}

func (a *Admin) call(ctx context.Context, ops []operation, mine []int, out []limiter.Adjusted) error {
	var keys []string
	places := map[string]int{}
	place := func(key []byte) int {
		at, known := places[string(key)]
		if !known {
			keys = append(keys, string(key))
			at = len(keys)
			places[string(key)] = at
		}
		return at
	}
	args := make([]any, 0, 8*len(mine))
	for _, i := range mine {
		op := &ops[i]
		mark := 0
		if op.Part == limiter.PartQuota {
			mark = place(a.keys.appendKept(nil, a.keys.lane(op.Row)))
		}
		var hash [8]byte
		binary.LittleEndian.PutUint64(hash[:], op.Hash)
		args = append(args, string(op.what), place(a.keyOf(&op.Ask)), mark, string(hash[:]), op.Numbers.Tokens, op.Numbers.Period, op.Numbers.Burst, op.more)
	}
	text, err := a.script.run(ctx, a.client, [][]string{keys, nil, nil}, args...)
	if err != nil {
		return err
	}
	return readAdmin(text, ops, mine, out)
}

// keyOf is the key in which an Ask is held.
func (a *Admin) keyOf(ask *limiter.Ask) []byte {
	switch {
	case ask.Part == limiter.PartSlot:
		return a.keys.appendPart(nil, 'z', ask.Row, ask.Hash, 0)
	case ask.Part == limiter.PartQuota:
		return a.keys.appendPart(nil, 'q', ask.Row, ask.Hash, ask.Start)
	case ask.Overflow:
		return a.keys.appendOverflow(nil, ask.Row)
	}
	return a.keys.appendRow(nil, ask.Row)
}

// readAdmin reads admin.lua's answer.
func readAdmin(text string, ops []operation, mine []int, out []limiter.Adjusted) error {
	lines := strings.Split(text, "\n")
	now, err := strconv.ParseInt(lines[0], 10, 64)
	if err != nil {
		return fmt.Errorf("%w: time %.20q", errReply, lines[0])
	}
	lines = lines[1:]
	for _, i := range mine {
		n := ops[i].lines()
		if len(lines) < n {
			return fmt.Errorf("%w: too few lines", errReply)
		}
		if out[i].Before, err = readHeld(lines[0], now); err != nil {
			return err
		}
		if out[i].After, err = readHeld(lines[n-1], now); err != nil {
			return err
		}
		lines = lines[n:]
	}
	if len(lines) > 0 {
		return fmt.Errorf("%w: %d lines too many", errReply, len(lines))
	}
	return nil
}

func readHeld(line string, now int64) (limiter.Held, error) {
	words := strings.Split(line, " ")
	if len(words) < 10 {
		return limiter.Held{}, fmt.Errorf("%w: %d words", errReply, len(words))
	}
	var v [10]int64
	var bad []error
	for i := range v {
		var err error
		v[i], err = strconv.ParseInt(words[i], 10, 64)
		bad = append(bad, err)
	}
	h := limiter.Held{
		NowMicros: now, Found: v[0] == 1, Broken: v[1] == 1, TTLMillis: v[2],
		Numbers: policy.Numbers{Tokens: v[3], Period: v[4], Burst: v[5]}, Units: v[6], Used: v[7], Kept: v[8] == 1, Active: v[9],
	}
	for _, word := range words[10:] {
		name, end, found := strings.Cut(word, ":")
		id, err := hex.DecodeString(name)
		at, endErr := strconv.ParseInt(end, 10, 64)
		if bad = append(bad, err, endErr); !found {
			bad = append(bad, errors.New("a lease without an end"))
		}
		h.Leases = append(h.Leases, limiter.HeldLease{ID: string(id), EndsMicros: at})
	}
	if err := errors.Join(bad...); err != nil {
		return limiter.Held{}, fmt.Errorf("%w: %.80q: %w", errReply, line, err)
	}
	return h, nil
}
