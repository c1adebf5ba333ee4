package ledger

import "fmt"

// Salvage reads a batch that may hold events which are none: bad says what is wrong
// with the event of a number. An error, which wraps ErrBatch, says that nothing of it
// can be told, not even whose it is.
func Salvage(body []byte) (b *Batch, bad map[int64]string, err error) {
	if b, err = read(body); err != nil {
		return nil, nil, err
	}
	head := *b
	head.Events = nil
	if err := head.Check(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrBatch, err)
	}
	for i := range b.Events {
		if err := b.Events[i].check(); err != nil {
			if bad == nil {
				bad = map[int64]string{}
			}
			bad[b.First+int64(i)] = err.Error()
		}
	}
	return b, bad, nil
}
