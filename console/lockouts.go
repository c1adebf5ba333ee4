package console

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// RefusedFeed is a Feed that carries whom replicas refused lately.
type RefusedFeed interface {
	// Refused returns what the replicas named told last; those that told nothing for two
	// minutes are left out.
	Refused(ctx context.Context, replicas []string) ([]*usage.RefusedReport, error)
}

// LimiterState is the limiter's shared state, for people; redisstore.Admin is one. Its
// errors wrap limiter.ErrStore.
type LimiterState interface {
	// Inspect tells what is held, as a decision at this moment would read it.
	Inspect(ctx context.Context, asks []limiter.Ask) ([]limiter.Held, error)
	// Adjust moves levels of buckets; doing it twice is doing it once.
	Adjust(ctx context.Context, adjustments []limiter.Adjustment) ([]limiter.Adjusted, error)
	// Clear drops what is held.
	Clear(ctx context.Context, asks []limiter.Ask) ([]limiter.Adjusted, error)
	// EndLeases ends leases by name.
	EndLeases(ctx context.Context, ask limiter.Ask, names []string) (limiter.Adjusted, error)
	StrayState
}

// StrayState finds and mends limiter state that has no TTL.
type StrayState interface {
	// Strays reads on from a place; whole says that a round over all keys has ended.
	Strays(ctx context.Context, at *limiter.ScanPlace, steps int) (found []limiter.Stray, whole bool, err error)
	// Repair gives keys their TTL and returns how many it did.
	Repair(ctx context.Context, keys []string) (int, error)
}

// LockoutKind sorts lockouts by who is refused.
type LockoutKind string

// Kinds of lockouts.
const (
	LockoutTenants  LockoutKind = "tenants" // and their credentials
	LockoutAccounts LockoutKind = "accounts"
	LockoutIPs      LockoutKind = "ips"
	LockoutGlobal   LockoutKind = "global"
)

// LockoutPart is the kind of limit that refuses.
type LockoutPart string

// Kinds of limits that refuse. The last one is kept by each replica for itself.
const (
	LockoutRate        LockoutPart = "rate"
	LockoutConcurrency LockoutPart = "concurrency"
	LockoutQuota       LockoutPart = "quota"
	LockoutCredentials LockoutPart = "credentials"
)

// Lockout is a subject that a limit refuses now.
type Lockout struct {
	ID     string // lko_…; tells nothing of the subject to whoever lacks the console's key
	Limit  string
	Part   LockoutPart
	Kind   LockoutKind
	Tenant string // "" when it is counted without one
	// TenantName is "" for a tenant that is unknown.
	TenantName string
	// Subject names who is refused: in full for whoever may see that, else masked, and
	// then Masked is true. A tenant's id, and everything together, are never masked.
	Subject string
	Masked  bool
	Route   string // of the last refusal
	// Refusals since the window began lie between Refusals-Error and Refusals.
	Refusals, Error int64
	First, Last     time.Time
	// Until is when the least that was refused passes, if nobody else draws; nil when
	// nobody knows.
	Until *time.Time
	// Never: waiting does not help. Why says what it is, and what does.
	Never bool
	Why   string
	// Shared: counted together with others, because there are too many identifiers.
	Shared bool
	// Verified says that Redis was asked at At. What is not, a replica told then.
	Verified bool
	At       time.Time
	Cost     int64 // the least that was refused
	Left     int64 // whole tokens, places or units that are left; below 0: a debt
	Most     int64 // tokens of the burst, places or units
	Replicas []string
	// CanUnlock: an unlock would let it through.
	CanUnlock bool

	ask limiter.Ask
	row usage.RefusedRow
}

// LockoutList is who is refused now.
type LockoutList struct {
	Items  []Lockout
	At     time.Time
	Since  time.Time // what refusals are counted from, at the latest
	Known  bool      // false: it could not be found out; Problem says why
	Counts map[LockoutKind]int
	// Reported of Replicas have told within two minutes whom they refuse.
	Reported, Replicas int
	// Candidates is how many were told; of more than MaxLockouts the rest was not looked at.
	Candidates int
	Problem    string
}

// MaxLockouts bounds the candidates that are looked up.
const MaxLockouts = 500

// Lockouts tells who is refused now, by what and until when, and ends it.
type Lockouts struct {
	d     Deps
	fleet *Fleet
	state LimiterState
	laws  lawCache

	mu   sync.Mutex
	last *lockoutView

	strays strayBook
}

// lockoutView is a list with full subjects, as nobody but the service sees it.
type lockoutView struct {
	list LockoutList
	made time.Time
}

// lockoutsFresh is for how long a list is shown again.
const lockoutsFresh = time.Second

// NewLockouts returns the service. Without a state nothing can be verified, and every
// method but Known says so.
func NewLockouts(d Deps, fleet *Fleet, state LimiterState) *Lockouts {
	return &Lockouts{d: d.withDefaults(), fleet: fleet, state: state}
}

// LockoutQuery filters lockouts; "" matches everything.
type LockoutQuery struct {
	Kind   LockoutKind
	Tenant string
	Limit  string
}

// List returns who is refused now, most refused first. Subjects are masked for roles
// that may not see them.
func (s *Lockouts) List(ctx context.Context, actor Actor, q LockoutQuery) (LockoutList, error) {
	if err := actor.need(PermView); err != nil {
		return LockoutList{}, err
	}
	v := s.view(ctx, lockoutsFresh)
	out := v.list
	out.Items = nil
	for _, l := range v.list.Items {
		if (q.Kind == "" || l.Kind == q.Kind) && (q.Tenant == "" || l.Tenant == q.Tenant) && (q.Limit == "" || l.Limit == q.Limit) {
			out.Items = append(out.Items, l.shownTo(actor))
		}
	}
	return out, nil
}

// Get returns one lockout; CodeNotFound when it is over.
func (s *Lockouts) Get(ctx context.Context, actor Actor, id string) (Lockout, error) {
	if err := actor.need(PermView); err != nil {
		return Lockout{}, err
	}
	l, err := s.find(ctx, id)
	return l.shownTo(actor), err
}

// Count is how many are refused, as of the list that was made then; known is false when
// nobody knows.
func (s *Lockouts) Count() (n int, at time.Time, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || !s.last.list.Known || s.d.now().Sub(s.last.made) > time.Minute {
		return 0, time.Time{}, false
	}
	return len(s.last.list.Items), s.last.made, true
}

// Run keeps the count and looks for state without a TTL until ctx ends.
func (s *Lockouts) Run(ctx context.Context) error {
	s.d.repeat(ctx, 2*time.Second, "limiter state cannot be looked over", func(ctx context.Context) error {
		s.view(ctx, lockoutsFresh)
		return s.lookForStrays(ctx)
	})
	return nil
}

func (s *Lockouts) find(ctx context.Context, id string) (Lockout, error) {
	v := s.view(ctx, 0)
	if !v.list.Known {
		return Lockout{}, &Error{Code: CodeUnavailable, Public: v.list.Problem}
	}
	for _, l := range v.list.Items {
		if l.ID == id {
			return l, nil
		}
	}
	return Lockout{}, notFound("lockout")
}

// view is a list that is not older than fresh.
func (s *Lockouts) view(ctx context.Context, fresh time.Duration) *lockoutView {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && fresh > 0 && s.d.now().Sub(s.last.made).Abs() < fresh {
		return s.last
	}
	list, err := s.look(ctx)
	if err != nil {
		s.d.Log.WarnContext(ctx, "lockouts cannot be told", "error", err)
		list = LockoutList{Problem: "Redis cannot be asked: who is refused now is unknown.", At: s.d.now()}
	}
	s.last = &lockoutView{list: list, made: s.d.now()}
	return s.last
}

// look asks replicas' reports and Redis.
func (s *Lockouts) look(ctx context.Context) (LockoutList, error) {
	feed, ok := s.d.Feed.(RefusedFeed)
	if !ok || s.state == nil {
		return LockoutList{Problem: "This console is not connected to limiter state.", At: s.d.now()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	out := LockoutList{Known: true, At: s.d.now(), Counts: map[LockoutKind]int{}}
	replicas, err := s.d.redisReplicas(ctx)
	if err != nil {
		return LockoutList{}, err
	}
	var ids []string
	for _, r := range replicas {
		if ids = append(ids, r.ID); r.Age <= GoneAfter {
			out.Replicas++
		}
	}
	reports, err := feed.Refused(ctx, ids)
	if err != nil {
		return LockoutList{}, err
	}
	merged, since := usage.MergeRefused(reports)
	out.Reported, out.Candidates, out.Since = len(reports), len(merged), time.UnixMicro(since).UTC()
	if since == 0 {
		out.Since = out.At
	}
	merged = merged[:min(len(merged), MaxLockouts)]
	if out.Items, err = s.verify(ctx, merged); err != nil {
		return LockoutList{}, err
	}
	for _, l := range out.Items {
		out.Counts[l.Kind]++
	}
	return out, nil
}

// idOf is what stands for a subject that a limit refuses where the subject itself may
// not: the same on all consoles, and nobody without their key can find the subject.
func (s *Lockouts) idOf(limit string, row usage.RefusedRow) string {
	key := sha256.Sum256(append([]byte("headgate-lockout/v1\n"), s.d.Signer...))
	m := hmac.New(sha256.New, key[:])
	for _, part := range []string{limit, row.Kind, row.Tenant, string(row.Subject)} {
		m.Write([]byte{byte(len(part) >> 8), byte(len(part))})
		m.Write([]byte(part))
	}
	return "lko_" + strings.ToLower(base32.StdEncoding.EncodeToString(m.Sum(nil)[:15]))
}

// rowOf is the limiter's row that a report names.
func rowOf(r usage.RefusedRow) limiter.Row {
	return limiter.Row{Kind: limiter.RowKind(r.Kind[0]), Tenant: r.Tenant, Subject: string(r.Subject)}
}

func kindOfRow(r usage.RefusedRow) LockoutKind {
	switch limiter.RowKind(r.Kind[0]) {
	case limiter.RowGlobal:
		return LockoutGlobal
	case limiter.RowTenant, limiter.RowCredential:
		return LockoutTenants
	case limiter.RowIP:
		return LockoutIPs
	default:
		return LockoutAccounts
	}
}

// tenantsOf lists the tenants of candidates, each once.
func tenantsOf(merged []usage.MergedRefused) []string {
	var ids []string
	for i := range merged {
		if id := merged[i].Row.Tenant; id != "" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// own is what a tenant has of its own.
type ownTerms struct {
	plan      string
	overrides *policy.Overrides
}
