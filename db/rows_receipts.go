package db

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db/gen"
)

// PutReceiptKeys implements console.ReceiptRows.
func (t tx) PutReceiptKeys(ctx context.Context, keys []console.ReceiptKey, now time.Time) error {
	p := gen.PutReceiptKeysParams{Now: now}
	for _, k := range keys {
		p.PublicKeys, p.KeyIds = append(p.PublicKeys, k.Public), append(p.KeyIds, k.ID)
		p.Replicas, p.Hosts = append(p.Replicas, k.Replica), append(p.Hosts, k.Host)
	}
	return t.q.PutReceiptKeys(ctx, p)
}

// ReceiptKeys implements console.ReceiptRows.
func (t tx) ReceiptKeys(ctx context.Context, id string) ([]console.ReceiptKey, error) {
	rows, err := t.q.ListReceiptKeys(ctx, id)
	out := make([]console.ReceiptKey, 0, len(rows))
	for _, r := range rows {
		out = append(out, console.ReceiptKey{ID: r.KeyID, Public: r.PublicKey, Replica: r.Replica, Host: r.Host, FirstSeen: r.FirstSeen, LastSeen: r.LastSeen})
	}
	return out, err
}
