package limiter

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// BreakerConfig says when a Limiter stops asking its store. Zero values take
// the defaults named.
type BreakerConfig struct {
	Consecutive int           // failures in a row that open it; 5
	Window      time.Duration // span over which the ratio is taken; 1 s
	MinCalls    int           // calls in the window below which the ratio says nothing; 20
	Ratio       float64       // share of failures above which it opens; 0.5
	OpenFor     time.Duration // before the next probe, ±20 % jitter; 250 ms
}

func (c *BreakerConfig) problems() []error {
	var problems []error
	if c.Consecutive < 0 || c.MinCalls < 0 {
		problems = append(problems, errors.New("Config.Breaker: counts (Consecutive, MinCalls) are negative"))
	}
	if c.Window < 0 || c.OpenFor < 0 {
		problems = append(problems, errors.New("Config.Breaker: durations (Window, OpenFor) are negative"))
	}
	if c.Ratio < 0 || c.Ratio >= 1 {
		problems = append(problems, errors.New("Config.Breaker.Ratio is not in [0, 1)"))
	}
	return problems
}

func (c *BreakerConfig) fillDefaults() {
	if c.Consecutive == 0 {
		c.Consecutive = 5
	}
	if c.Window == 0 {
		c.Window = time.Second
	}
	if c.MinCalls == 0 {
		c.MinCalls = 20
	}
	if c.Ratio == 0 {
		c.Ratio = 0.5
	}
	if c.OpenFor == 0 {
		c.OpenFor = 250 * time.Millisecond
	}
}

type breakerState int32

const (
	breakerClosed breakerState = iota
	breakerOpen
	breakerHalfOpen
)

func (s breakerState) String() string {
	return [...]string{"closed", "open", "half-open"}[s]
}

// breakerSlots is the number of parts that the window moves in.
const breakerSlots = 10

// openJitter is the share by which the open time varies either way, so that
// replicas do not probe a recovering store in step.
const openJitter = 0.2

// breaker counts outcomes while closed. Once open it lets nothing through until
// a probe succeeds; probes come from Run alone, so no request pays for one.
type breaker struct {
	cfg    BreakerConfig
	now    func() int64
	jitter func() float64
	public atomic.Int32 // breakerState, read without the lock

	mu         sync.Mutex
	generation uint64 // grows at each opening; older results are stale
	inARow     int
	slots      [breakerSlots]breakerSlot
	openUntil  int64
}

type breakerSlot struct {
	index        int64 // number of the slot since 1970
	calls, fails int
}

func newBreaker(cfg BreakerConfig, now func() int64, jitter func() float64) *breaker {
	return &breaker{cfg: cfg, now: now, jitter: jitter}
}

func (b *breaker) state() breakerState { return breakerState(b.public.Load()) }

// allow reports whether the store may be asked, and the generation to record
// the outcome under.
func (b *breaker) allow() (uint64, bool) {
	if b.state() != breakerClosed {
		return 0, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.generation, b.state() == breakerClosed
}

// record counts one outcome and reports whether it opened the breaker.
func (b *breaker) record(generation uint64, ok bool) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if generation != b.generation || b.state() != breakerClosed {
		return false
	}
	slot := b.slot()
	slot.calls++
	if ok {
		b.inARow = 0
		return false
	}
	slot.fails++
	b.inARow++
	if b.inARow < b.cfg.Consecutive && !b.mostlyFails(slot.index) {
		return false
	}
	b.open()
	return true
}

func (b *breaker) slot() *breakerSlot {
	width := max(1, b.cfg.Window.Microseconds()/breakerSlots)
	index := b.now() / width
	slot := &b.slots[index%breakerSlots]
	if slot.index != index {
		*slot = breakerSlot{index: index}
	}
	return slot
}

func (b *breaker) mostlyFails(current int64) bool {
	calls, fails := 0, 0
	for _, slot := range b.slots {
		if slot.index > current-breakerSlots && slot.index <= current {
			calls += slot.calls
			fails += slot.fails
		}
	}
	return calls >= b.cfg.MinCalls && float64(fails) > b.cfg.Ratio*float64(calls)
}

// open wants the lock held.
func (b *breaker) open() {
	b.generation++
	factor := 1 + openJitter*(2*b.jitter()-1)
	b.openUntil = b.now() + int64(factor*float64(b.cfg.OpenFor.Microseconds()))
	b.public.Store(int32(breakerOpen))
}

// untilProbe is the time until a probe is due; open is false once closed.
func (b *breaker) untilProbe() (wait time.Duration, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state() == breakerClosed {
		return 0, false
	}
	return time.Duration(max(0, b.openUntil-b.now())) * time.Microsecond, true
}

// beginProbe claims the one half-open attempt; false when it is not due.
func (b *breaker) beginProbe() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state() != breakerOpen || b.now() < b.openUntil {
		return false
	}
	b.public.Store(int32(breakerHalfOpen))
	return true
}

func (b *breaker) endProbe(ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !ok {
		b.open()
		return
	}
	b.inARow = 0
	b.slots = [breakerSlots]breakerSlot{}
	b.public.Store(int32(breakerClosed))
}
