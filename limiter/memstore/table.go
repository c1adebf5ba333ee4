package memstore

// table is a map whose entries can be looked at in turn, which costs less than to
// begin a walk through a map each time.
type table[K comparable, V any] struct {
	byKey map[K]*item[K, V]
	items []*item[K, V] // in no order
	hand  int           // the next to look at
}

type item[K comparable, V any] struct {
	key   K
	at    int // in items
	value V
}

func newTable[K comparable, V any]() table[K, V] {
	return table[K, V]{byKey: map[K]*item[K, V]{}}
}

func (t *table[K, V]) len() int { return len(t.items) }

// get is the value of a key, or nil. It stays where it is until it is dropped.
func (t *table[K, V]) get(key K) *V {
	if i := t.byKey[key]; i != nil {
		return &i.value
	}
	return nil
}

// of is the value of a key, which is made if it is not there.
func (t *table[K, V]) of(key K) *V {
	i := t.byKey[key]
	if i == nil {
		i = &item[K, V]{key: key, at: len(t.items)}
		t.byKey[key] = i
		t.items = append(t.items, i)
	}
	return &i.value
}

func (t *table[K, V]) drop(i *item[K, V]) {
	last := len(t.items) - 1
	moved := t.items[last]
	t.items[i.at], moved.at = moved, i.at
	t.items[last] = nil
	t.items = t.items[:last]
	delete(t.byKey, i.key)
}

// sweep looks at a few entries and drops those that have been useless since past.
func (t *table[K, V]) sweep(past int64, useless func(v *V, past int64) bool) {
	for range min(sweepProbes, len(t.items)) {
		if t.hand >= len(t.items) {
			t.hand = 0
		}
		if i := t.items[t.hand]; useless(&i.value, past) {
			t.drop(i)
		} else {
			t.hand++
		}
	}
}
