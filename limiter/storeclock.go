package limiter

// StoreNow estimates the store's clock, in Unix µs, from the replies so far; the
// process' own until there was one.
func (l *Limiter) StoreNow() int64 { return l.clock.micros() }
