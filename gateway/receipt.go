package gateway

import (
	"crypto/ed25519"
	"encoding/base64"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/receipt"
)

const (
	// receiptPlaces bounds the receipts that are kept; a newcomer takes the place of
	// whatever has the same hash.
	receiptPlaces = 1 << 14
	// receiptsPerSecond bounds the signatures: at some 30 µs each they never take more
	// than a tenth of a core, whatever the number of subjects that are refused.
	receiptsPerSecond = 2000
	// receiptAge is the longest that a receipt is given again, in µs; where the store was
	// asked meanwhile it is receiptFresh.
	receiptAge   = 60_000_000
	receiptFresh = 1_000_000
)

// grounds is what a refusal rests on besides the limit's numbers.
type grounds struct {
	units, used int64
	wait        int64
}

// take keeps what the store said about the part that refused.
func (g *grounds) take(d *limiter.Decision) {
	*g = grounds{wait: d.RetryAfterMicros}
	at := d.Deciding
	switch d.DecidingKind {
	case limiter.PartCharge:
		if at < len(d.Levels) {
			g.units = d.Levels[at].Units
		}
	case limiter.PartSlot:
		if at < len(d.Slots) {
			g.used = d.Slots[at].Active
		}
	case limiter.PartQuota:
		if at < len(d.Quotas) {
			g.used = d.Quotas[at].Used
		}
	default:
	}
}

// receipts makes receipts and keeps them as long as the refusals are remembered that
// they were made for, so that a flood costs no signature a request. It takes no lock but
// to sign.
type receipts struct {
	key    ed25519.PrivateKey
	public string
	seed   maphash.Seed
	places []atomic.Pointer[keptReceipt]

	mu     sync.Mutex
	second int64
	signed int
}

// receiptKey names what refuses whom: of a limit that tenants share, each has its own
// receipt, as it says whose it is.
type receiptKey struct {
	hash    uint64
	row     limiter.Row
	tenant  string
	route   int
	version int64
	reason  limiter.Reason
	numbers policy.Numbers
	most    int64 // of places or units
}

// keptReceipt is immutable.
type keptReceipt struct {
	key  receiptKey
	cost int64
	made int64 // µs
	wait int64
	text string
}

// newReceipts reads or makes the replica's key; without a folder there are no receipts.
func newReceipts(dir string) (*receipts, error) {
	if dir == "" {
		return nil, nil
	}
	key, err := openReceiptKey(dir)
	if err != nil {
		return nil, err
	}
	public, _ := key.Public().(ed25519.PublicKey)
	return &receipts{
		key: key, public: base64.RawURLEncoding.EncodeToString(public), seed: maphash.MakeSeed(),
		places: make([]atomic.Pointer[keptReceipt], receiptPlaces),
	}, nil
}

// publicKey is what heartbeats tell; "" when there are no receipts.
func (r *receipts) publicKey() string {
	if r == nil {
		return ""
	}
	return r.public
}

// addReceipt gives a refusal its receipt. Bare ones tell nothing, and so have none.
func (g *Gateway) addReceipt(v *Verdict) {
	if g.receipts == nil || v.Allowed || v.Bare || v.Peeked || v.Aborted || v.Policy == nil {
		return
	}
	if v.Code != CodeQuotaExceeded && v.Code != CodeCostExceedsBurst {
		return
	}
	route, known := g.viewOf(v.Policy.Compiled).places[v.Route]
	if !known {
		return
	}
	r, row, ok := v.basis(route)
	if !ok {
		return
	}
	v.Receipt = g.receipts.of(&r, row, v.Cached)
}

// basis is what a receipt of the verdict says, and whose state refused.
func (v *Verdict) basis(route int) (receipt.Receipt, limiter.Row, bool) {
	r := receipt.Receipt{
		At: time.UnixMicro(v.recorded.at).UTC(), Version: v.Policy.Version, Tenant: v.Tenant, Route: route,
		Reason: v.Reason, Cost: v.Cost, WaitMicros: v.grounds.wait, Remembered: v.Cached,
	}
	if v.Reason == limiter.ReasonFallback {
		r.Kind = receipt.KindFallback
		if b := v.Route.Route.OnStoreFailure.Fallback; b != nil && !b.Share {
			r.Numbers, _ = policy.NumbersOf(b.Rate, b.Burst) // validation made sure of it
		}
		return r, limiter.Row{Subject: v.identity()}, true
	}
	at := max(v.Deciding, 0)
	if at >= len(v.Limits) || v.drawn == nil {
		return r, limiter.Row{}, false
	}
	limit := &v.Limits[at]
	switch limit.From.Source {
	case policy.SourceOverride:
		r.Source = receipt.SourceOverride
	case policy.SourceBoost:
		r.Source = receipt.SourceBoost
	}
	if v.Reason == limiter.ReasonBlocked || v.Reason == limiter.ReasonCostExceedsBurst {
		r.WaitMicros, r.Remembered = 0, false
	}
	row, ok := v.part(limit, &r)
	return r, row, ok
}

// part copies what was asked of the limit.
func (v *Verdict) part(limit *LimitState, r *receipt.Receipt) (limiter.Row, bool) {
	draw := &v.drawn.draw
	r.Cost = limit.Cost
	switch limit.Kind {
	case LimitRate:
		for i := range draw.Charges {
			if c := &draw.Charges[i]; c.LimitID == limit.ID {
				r.Kind, r.Limit, r.Numbers, r.Units = receipt.KindRate, c.Hash, c.Numbers, v.grounds.units
				return c.Row, true
			}
		}
	case LimitConcurrency:
		for i := range draw.Slots {
			if s := &draw.Slots[i]; s.LimitID == limit.ID {
				r.Kind, r.Limit, r.Cap, r.Used = receipt.KindConcurrency, s.Hash, s.Max, v.grounds.used
				return s.Row, true
			}
		}
	case LimitQuota:
		for i := range draw.Quotas {
			if q := &draw.Quotas[i]; q.LimitID == limit.ID {
				r.Kind, r.Limit, r.Cap, r.Used = receipt.KindQuota, q.Hash, q.Cap(), v.grounds.used
				return q.Row, true
			}
		}
	}
	return limiter.Row{}, false
}

// of is the receipt that was made for the same refusal a moment ago, or a new one; ""
// when there are too many at once.
func (r *receipts) of(what *receipt.Receipt, row limiter.Row, remembered bool) string {
	key := receiptKey{what.Limit, row, what.Tenant, what.Route, what.Version, what.Reason, what.Numbers, what.Cap}
	place := &r.places[maphash.Comparable(r.seed, key)%receiptPlaces]
	now := what.At.UnixMicro()
	if k := place.Load(); k != nil && k.key == key && k.cost <= what.Cost && k.holds(now, remembered) {
		return k.text
	}
	if !r.maySign(now / 1_000_000) {
		return ""
	}
	text, err := receipt.Sign(what, r.key)
	if err != nil { // a value that no receipt can tell
		return ""
	}
	place.Store(&keptReceipt{key, what.Cost, now, what.WaitMicros, text})
	return text
}

// holds reports whether the receipt may be given again.
func (k *keptReceipt) holds(now int64, remembered bool) bool {
	age := now - k.made
	if remembered && age >= 0 && age < min(k.wait, receiptAge) {
		return true
	}
	return age >= 0 && age < receiptFresh
}

// maySign counts the signatures of a second.
func (r *receipts) maySign(second int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if second != r.second {
		r.second, r.signed = second, 0
	}
	r.signed++
	return r.signed <= receiptsPerSecond
}
