package memstore

import "github.com/headgate/headgate/limiter"

// verdict gathers what the parts of a draw say.
type verdict struct {
	admitted bool // by all that are no shadows
	payable  bool // by all
}

func (v *verdict) add(refused, shadow bool) {
	v.admitted = v.admitted && (!refused || shadow)
	v.payable = v.payable && !refused
}

// spends reports whether a part is spent: shadows are only if nothing refused,
// so that they show what enforcing them would have done.
func (v *verdict) spends(shadow bool) bool { return v.payable || v.admitted && !shadow }

// decide judges every part on the state before the draw, then spends.
func (s *Store) decide(now int64, d *limiter.Draw) limiter.Outcome {
	out := limiter.Outcome{NowMicros: now, Levels: make([]limiter.Level, len(d.Charges))}
	v := verdict{admitted: true, payable: true}
	var few [8]place // most draws need no more
	places := few[:0]
	var own *row
	for i := range d.Charges {
		c := &d.Charges[i]
		if i == 0 || c.Row != d.Charges[i-1].Row {
			own = s.rows.get(c.Row)
		}
		p := s.find(now, c, own)
		wait := limiter.Wait(p.bucket.Units, c.Cost, c.Numbers)
		out.Levels[i] = limiter.Level{Units: p.bucket.Units, WaitMicros: wait, Overflow: p.overflow}
		v.add(wait > 0, c.Shadow)
		places = append(places, p)
	}
	if len(d.Slots) > 0 {
		out.Slots = make([]limiter.SlotLevel, len(d.Slots))
	}
	for i := range d.Slots {
		out.Slots[i] = s.slot(now, &d.Slots[i])
		v.add(out.Slots[i].Refused, d.Slots[i].Shadow)
	}
	if len(d.Quotas) > 0 {
		out.Quotas = make([]limiter.QuotaLevel, len(d.Quotas))
	}
	for i := range d.Quotas {
		out.Quotas[i] = s.quota(now, &d.Quotas[i])
		v.add(out.Quotas[i].Refused, d.Quotas[i].Shadow)
	}
	if out.Admitted = v.admitted; v.admitted {
		s.spend(now, d, &v, places, &out)
	}
	return out
}

func (s *Store) spend(now int64, d *limiter.Draw, v *verdict, places []place, out *limiter.Outcome) {
	for i := range d.Charges {
		if v.spends(d.Charges[i].Shadow) {
			s.pay(&d.Charges[i], &places[i], &out.Levels[i])
		}
	}
	for i := range d.Slots {
		if slot := &d.Slots[i]; v.spends(slot.Shadow) {
			out.Slots[i].Active = s.hold(now, limit{slot.Row, slot.Hash}, slot.Lease, slot.HoldMicros)
		}
	}
	for i := range d.Quotas {
		if q := &d.Quotas[i]; v.spends(q.Shadow) {
			used := s.count(now, countedBy(q.Row, q.Hash, q.Start), q.Cost, q.End)
			out.Quotas[i] = limiter.QuotaLevel{Used: used, Overage: q.Bill && used > q.Amount, Lost: out.Quotas[i].Lost}
		}
	}
}
