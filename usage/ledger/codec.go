package ledger

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	// MaxEvents bounds the events of one Batch.
	MaxEvents = 4096
	// MaxBody bounds an encoded Batch, in bytes.
	MaxBody = 1 << 20
	// MaxName bounds each text of a Batch, in bytes.
	MaxName = 1000
	// maxText bounds a Batch before it is compressed.
	maxText = 8 << 20
	// MaxCount bounds numbers, so that all of a batch can be added up.
	MaxCount = 1 << 53
)

// ErrBatch says that bytes are no batch of events.
var ErrBatch = errors.New("no batch of events")

// ErrTooLarge says that a batch is beyond the bounds of one.
var ErrTooLarge = errors.New("batch of events is too large")

// wireBatch is a Batch as it travels.
type wireBatch struct {
	Replica string      `json:"replica"`
	Boot    string      `json:"boot"`
	First   int64       `json:"first"`
	Through int64       `json:"through,omitempty"`
	Final   bool        `json:"final,omitempty"`
	Events  []wireEvent `json:"events,omitempty"`
}

// wireEvent is an Event as it travels. Its second is told against the event before it.
type wireEvent struct {
	Second   int64   `json:"s,omitempty"`
	Tenant   string  `json:"t,omitempty"`
	KID      string  `json:"k,omitempty"`
	Route    string  `json:"r,omitempty"`
	Outcome  Outcome `json:"o"`
	Requests int64   `json:"n,omitempty"`
	Cost     int64   `json:"c,omitempty"`
}

// flaters are used again: one takes more than a megabyte to make.
//
//nolint:gochecknoglobals // a pool of what is costly to make
var flaters = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.BestSpeed) // the level is one that there is
	return w
}}

// Encode writes a batch as it travels: DEFLATE (RFC 1951) over JSON. Its error wraps
// ErrTooLarge when nobody would read it, and ErrBatch when Decode would refuse it.
func Encode(b *Batch) ([]byte, error) {
	if len(b.Events) > MaxEvents {
		return nil, fmt.Errorf("%w: %d events, at most %d", ErrTooLarge, len(b.Events), MaxEvents)
	}
	if err := b.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBatch, err)
	}
	w := wireBatch{Replica: b.Replica, Boot: b.Boot, First: b.First, Through: b.Through, Final: b.Final, Events: make([]wireEvent, len(b.Events))}
	before := int64(0)
	for i := range b.Events {
		e := &b.Events[i]
		w.Events[i] = wireEvent{e.Second - before, e.Tenant, e.KID, e.Route, e.Outcome, e.Requests, e.Cost}
		before = e.Second
	}
	raw, err := json.Marshal(&w)
	if err != nil {
		return nil, fmt.Errorf("encode events: %w", err)
	}
	out, err := deflate(raw)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxText || len(out) > MaxBody {
		return nil, fmt.Errorf("%w: %d events in %d bytes, at most %d", ErrTooLarge, len(b.Events), len(out), MaxBody)
	}
	return out, nil
}

func deflate(raw []byte) ([]byte, error) {
	var out bytes.Buffer
	z, _ := flaters.Get().(*flate.Writer)
	defer flaters.Put(z)
	z.Reset(&out)
	if _, err := z.Write(raw); err != nil {
		return nil, fmt.Errorf("compress events: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("compress events: %w", err)
	}
	return out.Bytes(), nil
}

// Decode reads what Encode wrote. Nothing in it is believed: every error wraps ErrBatch,
// and a batch that is returned is within all bounds. Texts may still hold any character.
func Decode(body []byte) (*Batch, error) {
	b, err := read(body)
	if err != nil {
		return nil, err
	}
	if err := b.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBatch, err)
	}
	return b, nil
}

// read reads a batch without believing what its events say.
func read(body []byte) (*Batch, error) {
	if len(body) > MaxBody {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrBatch, len(body), MaxBody)
	}
	raw, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(body)), maxText+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBatch, err)
	}
	if len(raw) > maxText {
		return nil, fmt.Errorf("%w: more than %d bytes of text", ErrBatch, maxText)
	}
	var w wireBatch
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBatch, err)
	}
	if len(w.Events) > MaxEvents {
		return nil, fmt.Errorf("%w: %d events, at most %d", ErrBatch, len(w.Events), MaxEvents)
	}
	b := &Batch{Replica: w.Replica, Boot: w.Boot, First: w.First, Through: w.Through, Final: w.Final, Events: make([]Event, len(w.Events))}
	second := int64(0)
	for i := range w.Events {
		e := &w.Events[i]
		second += e.Second
		b.Events[i] = Event{second, e.Tenant, e.KID, e.Route, e.Outcome, e.Requests, e.Cost}
		if second < 0 || second > MaxCount {
			return nil, fmt.Errorf("%w: event %d: second %d is out of range", ErrBatch, i, second)
		}
	}
	return b, nil
}

func (b *Batch) check() error {
	for _, name := range [...]string{b.Replica, b.Boot} {
		if name == "" || !plainName(name) {
			return fmt.Errorf("%.70q names neither a replica nor a boot", name)
		}
	}
	if b.First < 1 || b.First > MaxCount {
		return fmt.Errorf("first number %d is out of range", b.First)
	}
	if b.Through < 0 || b.Through > MaxCount {
		return fmt.Errorf("second %d is out of range", b.Through)
	}
	for i := range b.Events {
		if err := b.Events[i].check(); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
	}
	return nil
}

func (e *Event) check() error {
	for _, text := range [...]string{e.Tenant, e.KID, e.Route, string(e.Outcome)} {
		if len(text) > MaxName {
			return fmt.Errorf("a text of %d bytes, at most %d", len(text), MaxName)
		}
	}
	switch {
	case e.Second < 0 || e.Second > MaxCount:
		return fmt.Errorf("second %d is out of range", e.Second)
	case e.Requests < 0 || e.Requests > MaxCount:
		return fmt.Errorf("%d requests are out of range", e.Requests)
	case e.Cost < -MaxCount || e.Cost > MaxCount:
		return fmt.Errorf("cost %d is out of range", e.Cost)
	case e.Outcome == "":
		return errors.New("it has no outcome")
	case e.Outcome != OutcomeSettled && e.Cost < 0:
		return fmt.Errorf("cost %d of an event that settles nothing is negative", e.Cost)
	}
	return nil
}

// plainName reports whether s is printable ASCII of at most 64 bytes without a space,
// as the names of replicas and boots are.
func plainName(s string) bool {
	if len(s) > 64 {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
