package limiter

// Forget drops what is remembered of refusals of a tenant: call it when its
// record, its overrides or its state in the store changed.
func (l *Limiter) Forget(tenant string) {}

// ForgetAll drops what is remembered of refusals.
func (l *Limiter) ForgetAll() {}
