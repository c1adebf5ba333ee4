package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"time"
)

const (
	trailEvery = 10 * time.Second
	// trailWhole is how often the whole trail is walked; in between what was added is.
	trailWhole = time.Hour
	trailStep  = 1000
)

// trailState is how far the audit trail was found whole.
type trailState struct {
	seq     int64
	hash    []byte
	begun   time.Time // of the last walk from the beginning
	problem *AuditProblem
}

// CheckTrail verifies what was appended to the audit trail since the last call, and
// now and then all of it. That it is broken is an alert, not an error.
func (s *Alerts) CheckTrail(ctx context.Context) error {
	st := trailState{hash: make([]byte, sha256.Size), begun: s.d.now()}
	if old := s.trail.Load(); old != nil && old.problem == nil && s.d.now().Sub(old.begun) < trailWhole {
		st = *old
	}
	if err := s.walkTrail(ctx, &st); err != nil {
		return err
	}
	for _, r := range s.c.Fleet.Health(ctx).Replicas {
		if st.problem == nil && r.AuditHead > st.seq {
			st.problem = &AuditProblem{Seq: st.seq + 1, Reason: fmt.Sprintf("gateways have seen row %d, and the trail ends at %d", r.AuditHead, st.seq)}
		}
	}
	s.trail.Store(&st)
	return nil
}

// walkTrail goes on from where st ends. The row there must be as it was.
func (s *Alerts) walkTrail(ctx context.Context, st *trailState) error {
	if st.seq > 0 {
		rows, err := s.trailRows(ctx, st.seq-1, 1)
		if err != nil {
			return err
		}
		if len(rows) == 0 || rows[0].Seq != st.seq || !bytes.Equal(rows[0].Hash, st.hash) {
			st.problem = &AuditProblem{Seq: st.seq, Reason: "row is missing, or was changed since it was last read"}
			return nil
		}
	}
	for {
		rows, err := s.trailRows(ctx, st.seq, trailStep)
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, e := range rows {
			if st.problem = checkLink(e, st.seq+1, st.hash); st.problem != nil {
				return nil
			}
			st.seq, st.hash = e.Seq, e.Hash
		}
	}
}

func (s *Alerts) trailRows(ctx context.Context, after int64, limit int) (rows []AuditEvent, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		rows, err = tx.AuditForward(ctx, after, limit)
		return err
	})
	return rows, err
}

// askTrail answers from the last verification.
func (s *Alerts) askTrail() ([]finding, bool) {
	st := s.trail.Load()
	if st == nil {
		return nil, false
	}
	if st.problem == nil {
		return nil, true
	}
	words := fmt.Sprintf("The audit trail is not as it was written, from row %d on: %s.", st.problem.Seq, st.problem.Reason)
	return []finding{{object: "audit", name: "Audit trail", value: st.problem.Seq, words: words}}, true
}
