package console

import (
	"context"
	"time"
)

// TenantFacts is what a list tells of a tenant besides its row.
type TenantFacts struct {
	Active, Retiring int64 // key versions, suspended ones too
	Overrides        int64 // values of its own and boosts that hold
	NextEnd          *time.Time
	LastSeen         *time.Time // the last accepted use of any key; nil: none is known
	Requests24h      int64      // with a right key
	Refused24h       int64      // of them, by a limit or for the key's state
}

// Facts tells of at most 200 tenants what lists show besides their rows. One that
// does not exist is absent. How current the use of keys is says KeyUseSource.
func (s *Tenants) Facts(ctx context.Context, ids []string) (out map[string]TenantFacts, err error) {
	if ids = ids[:min(len(ids), maxPage)]; len(ids) == 0 {
		return nil, nil
	}
	now := s.d.now()
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		if out, err = tx.TenantFacts(ctx, ids, now.Add(-24*time.Hour)); err != nil {
			return err
		}
		own, err := tx.OverrideFacts(ctx, ids, now)
		for id, o := range own {
			f := out[id]
			f.Overrides, f.NextEnd = o.Live, o.NextEnd
			out[id] = f
		}
		return err
	})
	return out, err
}

// tenantNames maps tenants' ids to names, for those that exist.
func (d Deps) tenantNames(ctx context.Context, ids []string) (out map[string]string, err error) {
	err = d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.TenantNames(ctx, ids)
		return err
	})
	return out, err
}
