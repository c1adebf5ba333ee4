package console

import (
	"context"
	"math"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
	"github.com/headgate/headgate/policy"
)

// Limits of wrong passwords. Right ones cost nothing, so that an office behind
// one address can work; what is bounded is guessing.
const (
	accountBurst, accountPerHour = 10, 90  // at most 100 guesses at one account in the first hour
	knownBurst, knownPerHour     = 10, 90  // the same for a network that the account has used, on its own
	networkBurst, networkPerHour = 40, 360 // at most 100 guesses from one network in 10 minutes
	globalBurst, globalPerHour   = 200, 3600
)

const (
	hashQueue    = 50
	guardEntries = 20000
)

// hasher computes argon2id one at a time, so that sign-ins cannot take the
// machine's memory and processors; those that wait are bounded too.
type hasher struct {
	slot  chan struct{}
	queue chan struct{}
}

func newHasher() *hasher {
	return &hasher{slot: make(chan struct{}, 1), queue: make(chan struct{}, hashQueue)}
}

func hashParams() *argon2id.Params {
	return &argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}
}

// dummyHash is of no password; comparing with it takes as long as with a real one.
const dummyHash = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// enter waits for the slot. The returned function gives it back.
func (h *hasher) enter(ctx context.Context) (func(), error) {
	select {
	case h.queue <- struct{}{}:
	default:
		return nil, &Error{Code: CodeRateLimited, Public: "Too many people are signing in; please try again in a moment.", RetryAfter: 2}
	}
	select {
	case h.slot <- struct{}{}:
		<-h.queue
		return func() { <-h.slot }, nil
	case <-ctx.Done():
		<-h.queue
		return nil, ctx.Err()
	}
}

func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	leave, err := h.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	return argon2id.CreateHash(password, hashParams())
}

// SignIn checks a password. ip is the client's address. The answer for an
// unknown account, a disabled one and a wrong password is the same
// (CodeUnauthenticated), and takes the same time. It works without Redis.
func (s *Operators) SignIn(ctx context.Context, email, password, ip string) (Operator, error) {
	email = strings.ToLower(strings.TrimSpace(email))
	wrong := &Error{Code: CodeUnauthenticated, Public: "The e-mail address or the password is wrong."}
	if email == "" || password == "" || len(email) > 254 || len(password) > maxPassword {
		return Operator{}, wrong
	}
	leave, err := s.hasher.enter(ctx)
	if err != nil {
		return Operator{}, err
	}
	defer leave() // one at a time from here on: a guess is counted before the next is looked at
	network := networkOf(ip)
	if wait := s.guard.wait(email, network, email); wait > 0 {
		return Operator{}, tooManyPasswords(wait)
	}
	o, err := s.ByEmail(ctx, email)
	if err != nil && !IsNotFound(err) {
		return Operator{}, err
	}
	known := err == nil && o.PasswordHash != "" && o.DisabledAt == nil
	hash := dummyHash
	if known {
		hash = o.PasswordHash
	}
	match, err := argon2id.ComparePasswordAndHash(password, hash)
	if err != nil && known {
		return Operator{}, err
	}
	if !match || !known {
		s.guard.failed(ctx, email, network, email)
		s.d.Log.InfoContext(ctx, "sign-in refused", "network", network)
		return Operator{}, wrong
	}
	s.guard.succeeded(email, network)
	return o, s.recordSignIn(ctx, o, ip)
}

func (s *Operators) recordSignIn(ctx context.Context, o Operator, ip string) error {
	actor := Actor{ID: o.ID, Name: o.Name, Role: o.Role, Via: ViaConsole, IP: ip}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		return s.d.record(ctx, tx, actor, s.d.now(), event{action: "session.sign-in", object: "operator", objectID: o.ID})
	})
}

// networkOf is the /24 or /56 that an address lies in: what one guesser has at hand.
func networkOf(ip string) string {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return "unknown"
	}
	a = a.Unmap().WithZone("")
	bits := 24
	if a.Is6() {
		bits = 56
	}
	p, _ := a.Prefix(bits)
	return p.String()
}

// guard counts wrong passwords in the product's own limiter, in memory.
type guard struct {
	now   func() time.Time
	store *memstore.Store

	mu      sync.Mutex
	blocked map[limiter.Row]time.Time // until when nothing is looked at
	known   map[[2]string]time.Time   // account's id and network, by the last right password
}

func newGuard(now func() time.Time) *guard {
	return &guard{now: now, store: memstore.New(now), blocked: map[limiter.Row]time.Time{}, known: map[[2]string]time.Time{}}
}

func perHour(n, burst int64) policy.Numbers {
	// n per hour, reduced: one token every 3600e6/n µs, for the n used here.
	return policy.Numbers{Tokens: 1, Period: int64(time.Hour/time.Microsecond) / n, Burst: burst}
}

// charges are the buckets that a password draws from that is none of accounts,
// which share an address; there may be none. An account has a bucket of its own
// for each network from which it has signed in, so that a stranger who guesses
// keeps nobody out. It is the account's alone: whoever has another one under the
// same address, in a tenant of their own, gets no guesses at this one by it.
func (g *guard) charges(email, network string, accounts ...string) (out []limiter.Charge) {
	bucket := func(kind, subject string, n policy.Numbers) limiter.Charge {
		id := "sign-in." + kind
		return limiter.Charge{
			Row: limiter.Row{Kind: limiter.RowIP, Subject: kind + " " + subject}, LimitID: id, Hash: policy.LimitHash(id), Numbers: n, Cost: 1,
		}
	}
	strange := len(accounts) == 0
	for _, id := range accounts {
		if _, ok := g.known[[2]string{id, network}]; ok {
			out = append(out, bucket("known", id+" "+network, perHour(knownPerHour, knownBurst)))
		} else {
			strange = true
		}
	}
	if strange {
		out = append(out, bucket("network", network, perHour(networkPerHour, networkBurst)), bucket("global", "", perHour(globalPerHour, globalBurst)),
			bucket("account", email, perHour(accountPerHour, accountBurst)))
	}
	return out
}

// wait says how long nothing may be tried at accounts; 0 when it may be.
func (g *guard) wait(email, network string, accounts ...string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	var longest time.Duration
	now := g.now()
	for _, c := range g.charges(email, network, accounts...) {
		longest = max(longest, g.blocked[c.Row].Sub(now))
	}
	return longest
}

// failed charges a wrong password and blocks what is used up by it.
func (g *guard) failed(ctx context.Context, email, network string, accounts ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	for _, c := range g.charges(email, network, accounts...) {
		out, err := g.store.Take(context.WithoutCancel(ctx), &limiter.Draw{Charges: []limiter.Charge{c}})
		if err != nil || len(out.Levels) != 1 {
			continue
		}
		missing := c.Numbers.Period - out.Levels[0].Units // a token is Period units
		if !out.Admitted || missing > 0 {
			g.block(c.Row, now, now.Add(time.Duration(missing)*time.Microsecond))
		}
	}
}

// block remembers until when a bucket is empty. The table is bounded: of a few
// entries looked at, one goes, and all that are over. What goes too early costs
// one more guess: the bucket itself is still empty.
func (g *guard) block(row limiter.Row, now, until time.Time) {
	looked := 0
	for r, t := range g.blocked { // in random order
		if len(g.blocked) < guardEntries && looked == 0 {
			break
		}
		if looked == 0 || !t.After(now) {
			delete(g.blocked, r)
		}
		if looked++; looked == 8 {
			break
		}
	}
	g.blocked[row] = until
}

func (g *guard) succeeded(account, network string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.known) >= guardEntries {
		for k := range g.known { // any: it only costs that network its own bucket
			delete(g.known, k)
			break
		}
	}
	g.known[[2]string{account, network}] = g.now()
}

// CheckPassword checks the password of an operator who is signed in, for what
// needs it again. A wrong one counts like one at sign-in, and is CodeInvalid:
// the session stays.
func (s *Operators) CheckPassword(ctx context.Context, actor Actor, password string) error {
	wrong := invalid(FieldError{Field: "password", Message: "This is not your password."})
	if actor.ID == "" || password == "" || len(password) > maxPassword {
		return wrong
	}
	o, err := s.Get(ctx, actor.ID)
	if err != nil {
		return err
	}
	if o.PasswordHash == "" || o.DisabledAt != nil {
		return wrong
	}
	leave, err := s.hasher.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	email, network := strings.ToLower(o.Email), networkOf(actor.IP)
	if wait := s.guard.wait(email, network, email); wait > 0 {
		return tooManyPasswords(wait)
	}
	match, err := argon2id.ComparePasswordAndHash(password, o.PasswordHash)
	if err != nil {
		return err
	}
	if !match {
		s.guard.failed(ctx, email, network, email)
		s.d.Log.InfoContext(ctx, "password refused", "operator", o.ID, "network", network)
		return wrong
	}
	return nil
}

func tooManyPasswords(wait time.Duration) error {
	return &Error{
		Code: CodeRateLimited, Public: "Too many wrong passwords; please try again later.", RetryAfter: int(math.Ceil(wait.Seconds())),
	}
}
