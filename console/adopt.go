package console

import "context"

// Adopt takes over the version that Redis holds, after the database was
// restored from a copy that is behind it: history goes on from there. The
// version must be signed with this console's key. It is CodeConflict when the
// database is not behind.
func (s *Rollouts) Adopt(ctx context.Context, actor Actor, reason string) (Version, error) {
	return Version{}, &Error{Code: CodeUnavailable, Public: "Versions cannot be adopted yet."}
}
