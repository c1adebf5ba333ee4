package console

import (
	"context"
	"fmt"
	"time"
)

// Sections of the list of rotations, in their order.
const (
	sectionRisk    = '0'
	sectionRunning = '1'
	sectionOver    = '2'
)

// ListByRisk lists rotations: those at risk, as they end soon and the old version
// is used, then all others that run, the next end first, then those that are
// over, the last end first. With a state that is computed when read, a page may
// hold less than its limit although there are more.
func (s *Rotations) ListByRisk(ctx context.Context, q RotationQuery) (items []RatedRotation, next string, err error) {
	after, err := decodeCursor(q.Page.After)
	if err != nil {
		return nil, "", err
	}
	first, last := sectionsOf(q.State)
	if after.ID != "" {
		if section := rune(after.ID[0]); section < first || section > last {
			return nil, "", invalid(FieldError{Field: "cursor", Message: "This is not a cursor of this list."})
		}
		first, after.ID = rune(after.ID[0]), after.ID[1:]
	}
	limit := q.Page.limit()
	now := s.d.now()
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		items = nil
		for section, place := first, after; section <= last && len(items) <= limit; section++ {
			rows, err := s.section(ctx, tx, section, q, now, place, limit+1-len(items))
			if err != nil {
				return err
			}
			items, place = append(items, rows...), Cursor{}
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	items, next = cut(items, limit, func(r RatedRotation) Cursor {
		if r.Open() {
			return Cursor{At: r.EndsAt, ID: string(r.section) + r.ID}
		}
		return Cursor{At: *r.EndedAt, ID: string(sectionOver) + r.ID}
	})
	if err := s.rate(ctx, items, now); err != nil {
		return nil, "", err
	}
	return keepShown(items, q.State), next, nil
}

// sectionsOf says which sections can hold rotations that are shown so.
func sectionsOf(state RotationShown) (first, last rune) {
	switch state {
	case "":
		return sectionRisk, sectionOver
	case ShownOverlap, ShownReady, ShownOverdue:
		return sectionRisk, sectionRunning
	default:
		return sectionOver, sectionOver
	}
}

func (s *Rotations) section(ctx context.Context, tx Tx, section rune, q RotationQuery, now time.Time, after Cursor, limit int) ([]RatedRotation, error) {
	if section == sectionOver {
		return tx.EndedRotations(ctx, RotationState(q.State), q.TenantID, after, limit)
	}
	w := RiskWindow{Now: now, Soon: now.Add(OverdueBefore), MinQuiet: s.d.MinQuiet}
	rows, err := tx.RunningRotations(ctx, section == sectionRisk, w, q.TenantID, after, limit)
	for i := range rows {
		rows[i].section = section
	}
	return rows, err
}

// rate says what each rotation is shown as.
func (s *Rotations) rate(ctx context.Context, items []RatedRotation, now time.Time) error {
	var ids, kids []string
	for _, r := range items {
		if r.Open() {
			ids, kids = append(ids, r.ID), append(kids, r.OldKID)
		}
	}
	uses, age := map[string]KeyUse{}, UseAge{Behind: true}
	gaps := map[string]time.Duration{}
	if len(ids) > 0 && s.d.KeyUse != nil {
		var err error
		if uses, age, err = s.d.KeyUse.Uses(ctx, kids); err != nil {
			return fmt.Errorf("read use of %d old versions: %w", len(kids), err)
		}
		err = s.d.Store.Read(ctx, func(tx Tx) error {
			gaps, err = tx.RotationGaps(ctx, ids, now.Add(-sourcesOf))
			return err
		})
		if err != nil {
			return err
		}
	}
	for i := range items {
		r := &items[i]
		if r.Open() {
			r.OldLast = lastOf(uses[r.OldKID])
		}
		v := judge(r.Rotation, use{last: r.OldLast, gap: gaps[r.ID], age: age}, s.d.MinQuiet, now)
		r.Shown, r.WhyNot = v.shown, v.whyNot
	}
	return nil
}

func keepShown(items []RatedRotation, state RotationShown) []RatedRotation {
	if state != ShownReady && state != ShownOverdue {
		return items
	}
	kept := items[:0]
	for _, r := range items {
		if r.Shown == state {
			kept = append(kept, r)
		}
	}
	return kept
}

// OpenOf returns the running rotations of some credentials, by credential.
func (s *Rotations) OpenOf(ctx context.Context, credentialIDs []string) (map[string]Rotation, error) {
	out := map[string]Rotation{}
	err := s.d.Store.Read(ctx, func(tx Tx) error {
		list, err := tx.OpenRotationsOf(ctx, credentialIDs)
		for _, r := range list {
			out[r.CredentialID] = r
		}
		return err
	})
	return out, err
}
