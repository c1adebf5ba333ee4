package redisstore

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/limiter"
)

// Lines of clock.lua between which the clock is read.
const (
	prologueBegin = "-- prologue:"
	prologueEnd   = "-- end of prologue"
)

// virtualPrologue takes the time from the caller, and keeps rows for an hour of
// real time so that only the virtual clock ends them.
const virtualPrologue = "local now = tonumber(ARGV[2])\nlocal keep = 3600000\n"

// withPrologue is the script's source with other lines in place of those that
// read the clock.
func withPrologue(source, lines string) string {
	before, rest, _ := strings.Cut(source, prologueBegin)
	_, after, _ := strings.Cut(rest, prologueEnd)
	return before + lines + after
}

// NewVirtual makes a Store whose scripts are built from the same sources but go
// by the given clock, in Unix µs.
func NewVirtual(client redis.UniversalClient, opts Options, clock func() int64) *Store {
	s := New(client, opts)
	s.scripts = newScripts(func(source string) string { return withPrologue(source, virtualPrologue) })
	s.clock = clock
	return s
}

// TakeAll decides several requests of one lane in one call, as the combiner does.
func (s *Store) TakeAll(ctx context.Context, requests []*limiter.Draw) ([]limiter.Outcome, []error) {
	c := newCall()
	for _, d := range requests {
		var r request
		s.keys.pack(&r, d, 0)
		c.add(&r)
	}
	outs, errs := make([]limiter.Outcome, len(requests)), make([]error, len(requests))
	lane := 0
	if s.shards != nil {
		for _, d := range requests {
			lane, _ = s.oneLane(d)
		}
	}
	answer, err := s.sender(lane)(ctx, c)
	for i := range requests {
		if errs[i] = err; err == nil {
			outs[i], errs[i] = answer.next(c.shapes[i])
		}
	}
	return outs, errs
}

// ProbeKey is the key of the row that Ping draws from.
func (s *Store) ProbeKey() string { return string(s.keys.appendProbe(nil, globalLane)) }

// Lane names the lane of a row.
func (s *Store) Lane(row limiter.Row) string { return s.keys.prefixes[s.keys.lane(row)] }

// Scripts are the texts that Redis is given, and their hashes.
func (s *Store) Scripts() (sources, shas []string) {
	for _, one := range []script{s.scripts.plain, s.scripts.full, s.scripts.amend} {
		sources, shas = append(sources, one.source), append(shas, one.sha)
	}
	return sources, shas
}

// SlotKey and QuotaKey are the keys of a concurrency limit's leases and of a
// quota's counter.
func (s *Store) SlotKey(l limiter.Lease) string {
	return string(s.keys.appendPart(nil, 'z', l.Row, l.Hash, 0))
}

// QuotaKey is described at SlotKey.
func (s *Store) QuotaKey(row limiter.Row, hash uint64, start int64) string {
	return string(s.keys.appendPart(nil, 'q', row, hash, start))
}

// OverflowKey is the key of the row for the subjects that are too many.
func (s *Store) OverflowKey(row limiter.Row) string { return string(s.keys.appendOverflow(nil, row)) }

// MarkKey is the key that remembers an amendment where all lanes are one.
func (s *Store) MarkKey(id string) string { return string(s.keys.appendMark(nil, commonLane, id)) }

// PatientClient is Open's client with time limits for a busy test machine.
func PatientClient(url string) (redis.UniversalClient, error) {
	o, kind, err := decisionOptions(url, Options{Budget: 20 * time.Second})
	if err != nil {
		return nil, err
	}
	return newClient(o, kind), nil
}

// DecisionOptions are Open's options for a client.
func DecisionOptions(url string, budget time.Duration) (*redis.UniversalOptions, error) {
	o, _, err := decisionOptions(url, Options{Budget: budget})
	return o, err
}

// PatientThrough is PatientClient with connections that dial makes.
func PatientThrough(url string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (redis.UniversalClient, error) {
	o, kind, err := decisionOptions(url, Options{Budget: 20 * time.Second})
	if err != nil {
		return nil, err
	}
	o.Dialer, o.MinIdleConns = dial, 0
	return newClient(o, kind), nil
}

// TimeOf is the time that a draw over lanes with these times tells; 0 is one that was
// not asked.
func TimeOf(lanes ...int64) int64 {
	var parts []*lanePart
	for _, now := range lanes {
		parts = append(parts, &lanePart{asked: now != 0, outcome: limiter.Outcome{NowMicros: now}})
	}
	out := (&Store{}).assemble(&limiter.Draw{}, parts, true)
	return out.NowMicros
}

// RefundsOf are the corrections that take back a lane's draw after a refusal elsewhere.
func RefundsOf(d limiter.Draw, out limiter.Outcome) []limiter.Amendment {
	var back givenBack
	back.collect(&lanePart{draw: d, outcome: out}, true, true)
	plain := make([]limiter.Amendment, len(back.corrections))
	for i := range plain {
		plain[i] = back.corrections[i].Amendment
	}
	return plain
}

// KeptKeys are the keys of all lanes' marks.
func (s *Store) KeptKeys() []string {
	keys := make([]string, laneCount)
	for lane := range keys {
		keys[lane] = string(s.keys.appendKept(nil, lane))
	}
	return keys
}
