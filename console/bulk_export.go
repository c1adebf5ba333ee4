package console

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/headgate/headgate/internal/csvout"
)

// exportPage is how many rows of an export are read at once.
const exportPage = 1000

// Exports writes lists as CSV, row by row, however long they are.
type Exports struct{ d Deps }

// NewExports returns the service of exports.
func NewExports(d Deps) *Exports { return &Exports{d.withDefaults()} }

// Begin refuses an actor who may not take a list away, and writes the event. what
// is "tenants" or "keys"; filter says in words which of them.
func (s *Exports) Begin(ctx context.Context, actor Actor, what, filter string) error {
	if err := actor.need(PermExport); err != nil {
		return err
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		return s.d.record(ctx, tx, actor, s.d.now(), event{action: what + ".export", object: what, after: exportView{maskKeys(filter)}})
	})
}

type exportView struct {
	Filter string `json:"filter,omitempty"`
}

// Tenants writes tenants as CSV, the newest first: what Begin has allowed. Rows
// can be imported again (name, plan, external_id, time_zone). An error after the
// first row leaves half a list behind.
func (s *Exports) Tenants(ctx context.Context, w io.Writer, q TenantQuery) error {
	out := csvout.NewWriter(w)
	if err := out.Row("id", "name", "external_id", "plan", "time_zone", "state", "contacts", "created_at", "updated_at"); err != nil {
		return err
	}
	q.Sort = SortNewest
	for after := (Cursor{}); ; {
		var rows []Tenant
		err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
			rows, err = tx.Tenants(ctx, q, after, exportPage)
			return err
		})
		if err != nil {
			return err
		}
		for _, t := range rows {
			err := out.Row(t.ID, t.Name, t.ExternalID, t.Plan, t.TimeZone, string(t.State), strings.Join(t.Contacts, "; "), t.CreatedAt, t.UpdatedAt)
			if err != nil {
				return err
			}
			after = Cursor{At: t.CreatedAt, ID: t.ID}
		}
		if len(rows) < exportPage {
			return out.Flush()
		}
	}
}

// Keys writes key versions as CSV, the newest first, never a digest. When it is
// known who uses keys, that is a column.
func (s *Exports) Keys(ctx context.Context, w io.Writer, q KeyQuery) error {
	out := csvout.NewWriter(w)
	if err := out.Row("kid", "tenant", "tenant_name", "credential", "name", "environment", "scopes", "state", "created_at", "expires_at",
		"last_used_at", "revoked_at", "revoke_reason"); err != nil {
		return err
	}
	q.Q, q.Show = kidOf(q.Q), ""
	for after := (Cursor{}); ; {
		var rows []KeyVersion
		err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
			rows, err = tx.Keys(ctx, q, after, exportPage)
			return err
		})
		if err != nil {
			return err
		}
		if err := s.keys(ctx, out, rows); err != nil {
			return err
		}
		if len(rows) < exportPage {
			return out.Flush()
		}
		last := rows[len(rows)-1]
		after = Cursor{At: last.CreatedAt, ID: last.KID}
	}
}

func (s *Exports) keys(ctx context.Context, out *csvout.Writer, rows []KeyVersion) error {
	kids := make([]string, len(rows))
	for i, k := range rows {
		kids[i] = k.KID
	}
	var uses map[string]KeyUse
	if s.d.KeyUse != nil && len(kids) > 0 {
		var err error
		if uses, _, err = s.d.KeyUse.Uses(ctx, kids); err != nil {
			return fmt.Errorf("ask for the use of keys: %w", err)
		}
	}
	for _, k := range rows {
		err := out.Row(k.KID, k.TenantID, k.TenantName, k.CredentialID, k.CredentialName, k.Environment, k.Scopes, string(k.State), k.CreatedAt, k.NotAfter,
			uses[k.KID].LastUsedAt, k.RevokedAt, k.RevokeReason)
		if err != nil {
			return err
		}
	}
	return nil
}
