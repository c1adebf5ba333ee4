package ledger

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/headgate/headgate/usage"
)

// Bounds of one batch.
const (
	// MaxEvents bounds the events of one Batch.
	MaxEvents = 4096
	// MaxBody bounds an encoded Batch, in bytes.
	MaxBody = 1 << 20
	// MaxCost bounds what one event can count or cost, so that any number of events
	// that a database can hold adds up.
	MaxCost = 1 << 52
	// maxText bounds the same before it is compressed, in bytes.
	maxText = 4 << 20
	// maxName bounds a name in it, in bytes.
	maxName = 256
	// maxSecond is the last second of the year 9999.
	maxSecond = 253_402_300_799
)

// ErrBatch says that bytes are no batch of events.
var ErrBatch = errors.New("no batch of usage events")

// wireBatch is a Batch as it travels. Names that events share stand once.
type wireBatch struct {
	Replica string     `json:"replica"`
	Boot    string     `json:"boot"`
	First   int64      `json:"first"`
	Through int64      `json:"through"`
	Final   bool       `json:"final,omitempty"`
	Names   []string   `json:"names,omitempty"`
	Events  [][7]int64 `json:"events,omitempty"` // second, tenant, kid, route, outcome, requests, cost
}

// Encode writes a batch as it travels: DEFLATE (RFC 1951) over JSON.
func Encode(b *Batch) ([]byte, error) {
	if err := b.Check(); err != nil {
		return nil, fmt.Errorf("encode usage events: %w", err)
	}
	w := wireBatch{Replica: b.Replica, Boot: b.Boot, First: b.First, Through: b.Through, Final: b.Final, Events: make([][7]int64, len(b.Events))}
	known := map[string]int64{}
	name := func(s string) int64 {
		n, ok := known[s]
		if !ok {
			n = int64(len(w.Names))
			known[s], w.Names = n, append(w.Names, s)
		}
		return n
	}
	for i := range b.Events {
		e := &b.Events[i]
		w.Events[i] = [7]int64{e.Second, name(e.Tenant), name(e.KID), name(e.Route), name(string(e.Outcome)), e.Requests, e.Cost}
	}
	out, err := usage.Pack(w, maxText, MaxBody)
	if err != nil {
		return nil, fmt.Errorf("encode %d usage events: %w", len(b.Events), err)
	}
	return out, nil
}

// Decode reads what Encode wrote. Nothing in it is believed: every error wraps
// ErrBatch, and a batch that is returned passes Check.
func Decode(body []byte) (*Batch, error) {
	b, err := read(body)
	if err != nil {
		return nil, err
	}
	if err := b.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBatch, err)
	}
	return b, nil
}

// read is Decode of a batch that may hold anything.
func read(body []byte) (*Batch, error) {
	var w wireBatch
	if err := usage.Unpack(body, maxText, MaxBody, &w); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBatch, err)
	}
	if len(w.Events) > MaxEvents {
		return nil, fmt.Errorf("%w: %d events, at most %d", ErrBatch, len(w.Events), MaxEvents)
	}
	b := &Batch{Replica: w.Replica, Boot: w.Boot, First: w.First, Through: w.Through, Final: w.Final, Events: make([]Event, len(w.Events))}
	for i, e := range w.Events {
		for _, at := range e[1:5] {
			if at < 0 || at >= int64(len(w.Names)) {
				return nil, fmt.Errorf("%w: event %d has name %d of %d", ErrBatch, i, at, len(w.Names))
			}
		}
		b.Events[i] = Event{
			Second: e[0], Tenant: w.Names[e[1]], KID: w.Names[e[2]], Route: w.Names[e[3]], Outcome: Outcome(w.Names[e[4]]), Requests: e[5], Cost: e[6],
		}
	}
	return b, nil
}

// Check reports what keeps a batch from being one.
func (b *Batch) Check() error {
	for _, name := range []string{b.Replica, b.Boot} {
		if !ValidName(name) {
			return fmt.Errorf("%.70q names neither a replica nor a boot", name)
		}
	}
	switch {
	case b.First < 1 || b.First > MaxCost:
		return fmt.Errorf("first number %d is out of range", b.First)
	case b.Through < 0 || b.Through > maxSecond:
		return fmt.Errorf("through %d is no second", b.Through)
	case len(b.Events) > MaxEvents:
		return fmt.Errorf("%d events, at most %d", len(b.Events), MaxEvents)
	}
	for i := range b.Events {
		if err := b.Events[i].check(); err != nil {
			return fmt.Errorf("event %d: %w", b.First+int64(i), err)
		}
	}
	return nil
}

func (e *Event) check() error {
	for _, name := range []string{e.Tenant, e.KID, e.Route} {
		if Name(name) != name {
			return fmt.Errorf("%.70q is no name", name)
		}
	}
	settles := e.Outcome == OutcomeSettled
	switch {
	case e.Second < 0 || e.Second > maxSecond:
		return fmt.Errorf("second %d is out of range", e.Second)
	case !Known(e.Outcome):
		return fmt.Errorf("outcome %.40q is not known", string(e.Outcome))
	case e.Requests < 0 || e.Requests > MaxCost || settles && e.Requests != 0:
		return fmt.Errorf("%d requests are out of range", e.Requests)
	case e.Cost > MaxCost || e.Cost < -MaxCost || e.Cost < 0 && !settles:
		return fmt.Errorf("cost %d is out of range", e.Cost)
	case e.Cost != 0 && !Costs(e.Outcome):
		return fmt.Errorf("outcome %s costs nothing, and not %d", e.Outcome, e.Cost)
	}
	return nil
}

// Known reports whether an outcome can be one of an Event.
func Known(o Outcome) bool {
	if o == OutcomeInterrupted || o == OutcomeSettled || o == OutcomeAborted {
		return true
	}
	for _, known := range usage.Outcomes() {
		if o == known {
			return true
		}
	}
	return false
}

// Costs reports whether events of an outcome carry a cost: what was admitted, and
// corrections of it.
func Costs(o Outcome) bool { return o.Admitted() || o == OutcomeInterrupted || o == OutcomeSettled }

// ValidName reports whether s can name a replica or a boot.
func ValidName(s string) bool { return s != "" && len(s) <= 64 && plain(s) }

// Name is what an Event can hold of a name: all of it, as a rule.
func Name(s string) string {
	if plain(s) && len(s) <= maxName {
		return s
	}
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return '?'
		}
		return r
	}, s[:min(len(s), maxName)])
	return strings.ToValidUTF8(s, "")
}

// Second is the nearest second that an Event can be of.
func Second(unix int64) int64 { return min(max(unix, 0), maxSecond) }

// plain reports whether a name could be printed anywhere.
func plain(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if r < 0x20 || r == 0x7f {
			return false
		}
	}
	return true
}
