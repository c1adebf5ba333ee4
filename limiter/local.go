package limiter

// maxLocal bounds the charges of one request that slices pay.
const maxLocal = 8

// payments are the charges of a request that slices have paid.
type payments struct {
	paid  uint64 // bit i: charge i
	from  [maxLocal]*grant
	cost  [maxLocal]int64
	count int
}

func (p *payments) has(i int) bool { return i < MaxCharges && p.paid&(1<<i) != 0 }

// refund puts back what was taken for a request that is not admitted.
func (p *payments) refund() {
	for i := range p.count {
		p.from[i].left.Add(p.cost[i])
	}
	p.count = 0
}

// payLocally takes from slices what they can pay, and reports whether that is the
// whole request.
func (l *Limiter) payLocally(draw *Draw, now int64, p *payments) (all bool) {
	all = len(draw.Slots) == 0 && len(draw.Quotas) == 0 && len(draw.Charges) <= MaxCharges
	for i := range draw.Charges {
		if !l.payOne(&draw.Charges[i], i, now, p) {
			all = false
		}
	}
	return all
}

func (l *Limiter) payOne(c *Charge, i int, now int64, p *payments) bool {
	if p.count == maxLocal || i >= MaxCharges || !l.marked(c) || c.Cost < 1 {
		return false
	}
	s := l.slices.of(c, now, false)
	if s == nil {
		return false
	}
	from, low := s.spend(c.Cost, now)
	if low {
		l.fetchAhead(s, c)
	}
	if from == nil {
		return false
	}
	p.paid |= 1 << i
	p.from[p.count], p.cost[p.count] = from, c.Cost
	p.count++
	return true
}

// cachedRefusal refuses what the store is known to refuse. The wait it tells is
// enough, and larger than need be by at most the round trip of the call that
// refused.
func (l *Limiter) cachedRefusal(draw *Draw, now int64) (Decision, bool) {
	if len(l.denied.places) == 0 {
		return Decision{}, false
	}
	d := Decision{Deciding: -1, Cached: true}
	var v verdict
	for i := range draw.Charges {
		if level, at, refuses := l.deniedCharge(&draw.Charges[i], now); refuses {
			d.asOf(at)
			if d.Levels == nil {
				d.Levels = unknownLevels(len(draw.Charges))
			}
			d.Levels[i] = level
			v.add(PartCharge, i, level.WaitMicros)
		}
	}
	for i := range draw.Quotas {
		if used, at, refuses := l.deniedQuota(&draw.Quotas[i], now); refuses {
			d.asOf(at)
			if d.Quotas == nil {
				d.Quotas = make([]QuotaLevel, len(draw.Quotas))
			}
			d.Quotas[i] = QuotaLevel{Used: used, Refused: true}
			v.add(PartQuota, i, draw.Quotas[i].untilEnd(l.storeClock.micros(now)))
		}
	}
	if v.part == PartNone {
		return Decision{}, false
	}
	if d.Levels == nil {
		d.Levels = unknownLevels(len(draw.Charges))
	}
	v.decide(&d)
	return d, true
}

// asOf notes what an entry of the deny cache says of the time: the earliest counts.
func (d *Decision) asOf(at int64) {
	if d.NowMicros == 0 || at < d.NowMicros {
		d.NowMicros = at
	}
}

// deniedCharge is the level of a bucket that refuses, as of the store's time at.
func (l *Limiter) deniedCharge(c *Charge, now int64) (level Level, at int64, refuses bool) {
	if c.Shadow {
		return Level{}, 0, false
	}
	n, leased := l.numbersOf(c)
	if leased {
		if s := l.slices.of(c, now, false); s != nil && s.holds(c.Cost, now) {
			return Level{}, 0, false
		}
	}
	key := denyKey{row: c.Row, hash: c.Hash}
	e := l.denied.find(&key, now)
	if e == nil {
		return Level{}, 0, false
	}
	wait := e.wait(now, c.Cost, n)
	if wait == 0 {
		return Level{}, 0, false
	}
	return e.level(now, c.Cost, wait), e.storeAt(now), true
}

func (l *Limiter) deniedQuota(q *Quota, now int64) (used, at int64, refuses bool) {
	if q.Shadow {
		return 0, 0, false
	}
	key := denyKey{row: q.Row, hash: q.Hash, start: q.Start, quota: true}
	e := l.denied.find(&key, now)
	if e == nil || !e.refuses(q) {
		return 0, 0, false
	}
	return e.used, e.storeAt(now), true
}

// remember keeps what an answer says of buckets that cannot pay the same again, and
// of counters that refused. Of a bucket that can, it brings up to date what is
// known: the level fell, or it was counted by other numbers.
func (l *Limiter) remember(a *asking, req *Request, r reply, mark uint64) {
	if len(l.denied.places) == 0 {
		return
	}
	for at := range a.draw.Charges {
		c, level := &a.draw.Charges[at], &r.out.Levels[at]
		key := denyKey{row: c.Row, hash: c.Hash}
		switch {
		case level.Unknown:
		case c.Shadow || level.Overflow:
			l.denied.drop(&key)
		case level.Units < c.Cost*c.Numbers.Period || l.denied.known(&key):
			last := min(l.remembered(req, c), UntilFull(level.Units, c.Numbers))
			l.denied.put(&denial{
				key: key, mark: mark, sent: r.sent, received: r.received, until: r.sent + last,
				numbers: c.Numbers, units: level.Units, store: r.out.NowMicros,
			})
		}
	}
	for at := range a.draw.Quotas {
		q, level := &a.draw.Quotas[at], &r.out.Quotas[at]
		if !level.Refused || level.Lost || q.Shadow { // the next moment may bring a lost counter back
			continue
		}
		l.denied.put(&denial{
			key:  denyKey{row: q.Row, hash: q.Hash, start: q.Start, quota: true},
			mark: mark, sent: r.sent, received: r.received, until: r.sent + denyShortMicros,
			used: level.Used, most: q.Cap(), store: r.out.NowMicros,
		})
	}
}

// remembered is for how long a bucket's level is remembered, in µs.
func (l *Limiter) remembered(req *Request, c *Charge) int64 {
	if req.Settles || l.cfg.LeaseGlobal || l.marked(c) {
		return denyShortMicros
	}
	return denyMicros
}
