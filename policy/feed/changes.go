package feed

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/headgate/headgate/policy"
)

// changesPerCall bounds one reading of the stream, whose entries may name 200
// records each.
const changesPerCall = 250

// change is one entry of the stream.
type change struct {
	seq int64
	ids []recordID
}

// view is the directory's head and the changes after a place.
type view struct {
	epoch   string
	seq     int64 // -1 when there is no readable one
	changes []change
	broken  bool // an entry that cannot be read
}

func decodeView(reply []string) (view, error) {
	if len(reply) < 2 || (len(reply)-2)%3 != 0 {
		return view{}, fmt.Errorf("script answered %d values", len(reply))
	}
	v := view{epoch: reply[0], seq: -1}
	if seq, err := strconv.ParseInt(reply[1], 10, 64); err == nil && seq >= 0 && seq <= maxVersion {
		v.seq = seq
	}
	for e := reply[2:]; len(e) > 0; e = e[3:] {
		n, isSeq := strings.CutSuffix(e[0], "-0")
		seq, err := strconv.ParseInt(n, 10, 64)
		if err != nil || !isSeq || e[2] == "" {
			v.broken = true
			continue
		}
		v.changes = append(v.changes, change{seq: seq, ids: namedBy(e[1], e[2])})
	}
	return v, nil
}

// namedBy lists the records that an entry names.
func namedBy(kind, text string) []recordID {
	kind, many := strings.CutPrefix(kind, "many ")
	if !many {
		return []recordID{{policy.RecordKind(kind), text}}
	}
	var ids []recordID
	for id := range strings.FieldsSeq(text) {
		ids = append(ids, recordID{policy.RecordKind(kind), id})
	}
	return ids
}

// poll follows the stream to its end, or for as long as a call may take.
func (d *Directory) poll(ctx context.Context) pace {
	before := d.Place()
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	var next pace
	for more := true; more; {
		reply, err := followScript.RunRO(ctx, d.cfg.Client, []string{d.keys.directoryHead(), d.keys.directoryChanges()},
			strconv.FormatInt(d.cursor, 10), changesPerCall).StringSlice()
		var v view
		if err == nil {
			v, err = decodeView(reply)
		}
		d.noteAnswer(ctx, err)
		if err != nil {
			return hasty
		}
		next, more = d.apply(ctx, v)
	}
	if d.Place() != before {
		d.cfg.OnChange()
	}
	return next
}

// apply takes in one reading; more says that there is more to read at once.
func (d *Directory) apply(ctx context.Context, v view) (next pace, more bool) {
	if v.epoch == "" || v.seq < 0 {
		more = d.applyFilling(v)
		d.dropped(ctx, len(v.changes) > 0)
		return hasty, more
	}
	place := d.Place()
	switch {
	case v.epoch != place.Epoch:
		place = policy.Place{Epoch: v.epoch, Seq: v.seq}
		d.cache.dropAll(place, true)
		d.cfg.OnReset()
	case d.lost(v):
		place.Seq = v.seq
		d.cache.dropAll(place, false)
		d.cfg.OnReset()
	default:
		for _, c := range v.changes {
			d.drop(c.ids, c.seq)
			place.Seq = c.seq
		}
		more = len(v.changes) == changesPerCall
	}
	d.dropped(ctx, place != d.Place()) // before anybody is told that it has been applied
	d.cursor = place.Seq
	d.place.Store(&place)
	if !more {
		d.contact.Store(d.cfg.Now().UnixNano())
		d.whole.Store(true)
	}
	return calm, more
}

// lost reports whether the stream no longer leads from here to there: each
// change has one entry, so a gap, a missing tail or a head that lies behind
// means that something was dropped unseen. Head and stream were read at one moment.
func (d *Directory) lost(v view) bool {
	if v.broken || v.seq < d.cursor {
		return true
	}
	last := d.cursor
	for _, c := range v.changes {
		if c.seq != last+1 {
			return true
		}
		last = c.seq
	}
	return last != v.seq && len(v.changes) < changesPerCall
}

// applyFilling follows a directory that is gone or being filled. What is cached
// stays until MaxStale; what the console writes meanwhile replaces it already.
func (d *Directory) applyFilling(v view) (more bool) {
	d.whole.Store(false)
	if v.seq < d.cursor {
		// Another Redis, or the same one empty: its changes begin at 1.
		d.cursor = 0
		return v.seq > 0
	}
	for _, c := range v.changes {
		d.drop(c.ids, 0)
		d.cursor = c.seq
	}
	return len(v.changes) == changesPerCall
}

// dropped has the file hold what any changes dropped.
func (d *Directory) dropped(ctx context.Context, changes bool) {
	if d.file != nil && changes {
		d.file.dropped(ctx)
	}
}

func (d *Directory) drop(ids []recordID, change int64) {
	for _, id := range ids {
		d.cache.drop(id, change)
		d.cfg.OnRecord(id.kind, id.id)
	}
}

// noteAnswer keeps whether Redis answers, and closes the lookups' breaker when
// it does.
func (d *Directory) noteAnswer(ctx context.Context, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return // stopping: says nothing of Redis
	}
	if err == nil {
		d.breaker.close()
		if !d.asked {
			d.cfg.Log.InfoContext(ctx, "directory can be followed")
		}
		d.asked = true
		return
	}
	d.whole.Store(false)
	if d.asked {
		d.cfg.Log.WarnContext(ctx, "directory cannot be followed", "error", err)
	}
	d.asked = false
	if d.breaker.failed() {
		d.cfg.Log.WarnContext(ctx, "directory lookups stopped until Redis answers", "error", err)
	}
}

// ring asks for a poll now.
func (d *Directory) ring() {
	select {
	case d.rings <- struct{}{}:
	default:
	}
}
