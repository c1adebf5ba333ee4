package console

import (
	"context"
	"time"

	"github.com/headgate/headgate/policy"
)

// QuotaFeed reads and corrects what Redis counts of quotas. A Feed may have it;
// policy/feed.Publisher does.
type QuotaFeed interface {
	QuotaMarkFeed
	// QuotaUnits is what Redis counts, in the order of the counters; policy.AbsentUnits for none.
	QuotaUnits(ctx context.Context, of []policy.QuotaCounter) ([]int64, error)
	// RaiseQuotas brings counters up to their Units at least and returns what they hold then.
	RaiseQuotas(ctx context.Context, to []policy.QuotaCounter) ([]int64, error)
	// LowerQuotas takes Units away from counters, down to 0, and returns what they hold then.
	LowerQuotas(ctx context.Context, by []policy.QuotaCounter) ([]int64, error)
}

// QuotaMarkFeed says which lanes' counters gateways may believe.
type QuotaMarkFeed interface {
	// QuotaMarks is what the lanes' marks hold, by lane; "" for none.
	QuotaMarks(ctx context.Context) ([]string, error)
	// BeginQuotas leaves a note of that name in lanes, which goes with the counters when Redis loses them.
	BeginQuotas(ctx context.Context, lanes []int, name string) error
	// MarkQuotas marks the lanes that still have the note and returns the others.
	MarkQuotas(ctx context.Context, lanes []int, name, word string) (lost []int, err error)
	// KeepQuotas lets marks stay.
	KeepQuotas(ctx context.Context, lanes []int) error
}

// QuotaLedger adds up what tenants used; *Ledger does.
type QuotaLedger interface {
	// Sums has one answer for each ask, everything committed included.
	Sums(ctx context.Context, asks []LedgerAsk) ([]UsageSums, error)
	// Since is when the ledger began: what was admitted before, it need not have.
	Since(ctx context.Context) (time.Time, error)
}

// QuotaGrantUnits is how many units a tenant's period was given.
type QuotaGrantUnits struct {
	TenantID string
	Start    time.Time
	Units    int64
}

// QuotaRows keeps what is known of quotas besides the ledger.
type QuotaRows interface {
	InsertQuotaGrant(ctx context.Context, g QuotaGrant) error
	// QuotaGrants lists a tenant's, the newest first.
	QuotaGrants(ctx context.Context, tenantID string, limit int) ([]QuotaGrant, error)
	// QuotaGrantUnits adds them up by tenant and period: a lifetime's first, then the newest period.
	QuotaGrantUnits(ctx context.Context, tenantIDs []string) ([]QuotaGrantUnits, error)
	InsertQuotaReset(ctx context.Context, r QuotaReset) error
	// QuotaResets adds up units that no longer count, by tenant and period.
	QuotaResets(ctx context.Context, tenantIDs []string) ([]QuotaGrantUnits, error)
	QuotaStandingRows
	QuotaEventRows
}

// QuotaStandingRows keeps how Redis and the ledger stood.
type QuotaStandingRows interface {
	PutQuotaStandings(ctx context.Context, all []QuotaStanding, now time.Time) error
	// DropQuotaStandings removes those that were not compared since before.
	DropQuotaStandings(ctx context.Context, before time.Time) error
	// QuotaStandings reads those of some tenants, in no order.
	QuotaStandings(ctx context.Context, tenantIDs []string) ([]QuotaStanding, error)
	// QuotaStandingsByDrift lists the furthest apart first; after "" is the beginning.
	QuotaStandingsByDrift(ctx context.Context, afterDrift int64, afterID string, limit int) ([]QuotaStanding, error)
	// QuotaStandingsByUse lists those first that used the largest part of their amount.
	QuotaStandingsByUse(ctx context.Context, now time.Time, limit int) ([]QuotaStanding, error)
	QuotaDrift(ctx context.Context) (QuotaDrift, error)
}

// QuotaEventRows keeps thresholds that were crossed, and losses.
type QuotaEventRows interface {
	// InsertQuotaCrossings leaves out what was told before and returns how many are new.
	InsertQuotaCrossings(ctx context.Context, all []QuotaCrossing, now time.Time) (int64, error)
	// QuotaCrossings lists those after an id, in the order in which they were seen.
	QuotaCrossings(ctx context.Context, after int64, limit int) ([]QuotaCrossing, error)
	// QuotaCrossingsOf lists those of a tenant's period, by percent.
	QuotaCrossingsOf(ctx context.Context, tenantID string, start time.Time) ([]QuotaCrossing, error)
	InsertQuotaLoss(ctx context.Context, l QuotaLoss) error
	// QuotaLosses lists the newest first.
	QuotaLosses(ctx context.Context, limit int) ([]QuotaLoss, error)
}
