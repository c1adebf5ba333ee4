package spool

// Ticket is a request between Begin and End. The zero Ticket is ready; it must not be
// moved in between.
type Ticket struct {
	prev, next *Ticket
	id         uint64 // number of its first intent
	at         uint64 // number of the one that counts
	entry      Entry
}

// tickets are those that are open, the one with the lowest number first.
type tickets struct{ root Ticket }

func (l *tickets) init() { l.root.prev, l.root.next = &l.root, &l.root }

func (l *tickets) push(t *Ticket) {
	t.prev, t.next = l.root.prev, &l.root
	t.prev.next, l.root.prev = t, t
}

func (l *tickets) pushFront(t *Ticket) {
	t.prev, t.next = &l.root, l.root.next
	t.prev.next, t.next.prev = t, t
}

func (l *tickets) remove(t *Ticket) {
	t.prev.next, t.next.prev = t.next, t.prev
	t.prev, t.next = nil, nil
}

// front is the first one, nil when there is none.
func (l *tickets) front() *Ticket {
	if l.root.next == &l.root {
		return nil
	}
	return l.root.next
}

// oldest is the lowest second of the first tickets, 0 when there are none. They begin in
// order, so that few are enough.
func (l *tickets) oldest() int64 {
	t := l.front()
	if t == nil {
		return 0
	}
	second := t.entry.Second
	for i := 0; i < 64 && t != &l.root; i, t = i+1, t.next {
		second = min(second, t.entry.Second)
	}
	return second
}
