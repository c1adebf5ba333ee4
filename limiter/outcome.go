package limiter

// decision reads the store's answer in the terms of the request.
func (a *asking) decision(req *Request, out Outcome) Decision {
	d := Decision{Allowed: out.Admitted, NowMicros: out.NowMicros, Order: out.Order, Deciding: -1, peeked: req.Peek}
	a.expand(req, out, &d)
	if req.Peek {
		d.Allowed = true
	}
	var v verdict
	for i := range d.Levels {
		if level := &d.Levels[i]; level.WaitMicros > 0 && !req.Draw.Charges[i].Shadow {
			v.add(PartCharge, i, level.WaitMicros)
		}
	}
	for i := range d.Slots {
		if d.Slots[i].Refused && !req.Draw.Slots[i].Shadow {
			v.add(PartSlot, i, 0)
		}
	}
	for i := range d.Quotas {
		if level := &d.Quotas[i]; level.Refused && !req.Draw.Quotas[i].Shadow {
			v.add(PartQuota, i, level.wait(&req.Draw.Quotas[i], out.NowMicros))
		}
	}
	v.decide(&d)
	if d.Allowed && !req.Peek {
		d.Leases = d.leases(&req.Draw)
	}
	return d
}

// expand sets the lists of d: entries of what was not asked are unknown.
func (a *asking) expand(req *Request, out Outcome, d *Decision) {
	if a.charges == nil {
		d.Levels, d.Slots, d.Quotas = out.Levels, out.Slots, out.Quotas
		return
	}
	draw := &req.Draw
	d.Levels = unknownLevels(len(draw.Charges))
	for i := range draw.Charges {
		d.Levels[i].Never = draw.Charges[i].Shadow && draw.Charges[i].never()
	}
	for at, i := range a.charges {
		d.Levels[i] = out.Levels[at]
		d.Levels[i].Extra = 0
	}
	d.Slots = make([]SlotLevel, len(draw.Slots))
	for i := range draw.Slots {
		d.Slots[i].Refused = draw.Slots[i].Shadow && draw.Slots[i].never()
	}
	for at, i := range a.slots {
		d.Slots[i] = out.Slots[at]
	}
	d.Quotas = make([]QuotaLevel, len(draw.Quotas))
	for i := range draw.Quotas {
		d.Quotas[i].Refused = draw.Quotas[i].Shadow && draw.Quotas[i].never()
	}
	for at, i := range a.quotas {
		d.Quotas[i] = out.Quotas[at]
	}
}

func unknownLevels(n int) []Level {
	if n == 0 {
		return nil
	}
	levels := make([]Level, n)
	for i := range levels {
		levels[i].Unknown = true
	}
	return levels
}

// untilEnd is the time until the quota's period ends, or forever.
func (q *Quota) untilEnd(now int64) int64 {
	if q.End == 0 {
		return forever
	}
	return max(1, q.End-now)
}

// wait is for how long the quota refuses: to the end of its period, or, when its
// counter is lost, for a time that nobody knows.
func (l *QuotaLevel) wait(q *Quota, now int64) int64 {
	if l.Lost {
		return 0
	}
	return q.untilEnd(now)
}

// forever is the wait for what never comes back.
const forever = 1<<63 - 1

// verdict finds the part that decides a refusal: the one with the largest wait. A
// place of a concurrency limit and a lost counter, for which nobody knows the wait,
// decide only when nothing else refuses.
type verdict struct {
	part Part
	at   int
	wait int64
}

func (v *verdict) add(part Part, at int, wait int64) {
	if v.part == PartNone || wait > v.wait {
		*v = verdict{part, at, wait}
	}
}

func (v *verdict) decide(d *Decision) {
	d.Reason = ReasonAdmitted
	if v.part == PartNone {
		return
	}
	d.Allowed, d.DecidingKind, d.Deciding, d.RetryAfterMicros = false, v.part, v.at, v.wait
	if v.wait == forever {
		d.RetryAfterMicros = 0
	}
	switch v.part {
	case PartSlot:
		d.Reason = ReasonConcurrency
	case PartQuota:
		d.Reason = ReasonQuota
		if d.Quotas[v.at].Lost {
			d.Reason = ReasonClosed
		}
	default:
		d.Reason = ReasonLimit
	}
}

// leases are those that an admission made: shadows' only when none refuses.
func (d *Decision) leases(draw *Draw) []Lease {
	if len(draw.Slots) == 0 {
		return nil
	}
	shadows := !d.shadowRefuses()
	var held []Lease
	for i := range draw.Slots {
		if s := &draw.Slots[i]; (!s.Shadow || shadows) && !d.Slots[i].Unknown {
			held = append(held, s.Held())
		}
	}
	return held
}
