package memstore

// Sizes is how many entries of each kind are kept.
func (s *Store) Sizes() (rows, slots, quotas, marks int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rows.len(), s.slots.len(), s.quotas.len(), s.marks.len()
}
