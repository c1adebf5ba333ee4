package console_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// Two consoles on one database publish at the same time, 200 times: numbers grow
// by one, each version follows the one before it, every loser learns what was
// published meanwhile, and Redis ends with the newest.
func TestC02_TwoConsolesPublishAtOnceTwoHundredTimes(t *testing.T) {
	t.Parallel()
	const rounds = 200
	e := newEnv(t)
	e.relay(t)
	first := e.policies
	e.relay(t)
	services := []*console.Policies{first, e.policies}
	for round := range rounds {
		base := int64(round)
		errs := atOnce(2, func(i int) error {
			_, err := services[i].Publish(e.ctx, owner, document(fmt.Sprint(1000-2*round-i)), nil, base, console.PublishOptions{})
			return err
		})
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("round %d: %v", round, errs)
		}
		got := errorWith(t, errors.Join(errs...), console.CodeConflict)
		stale, ok := got.Detail.(console.StaleBase)
		if want := fmt.Sprintf("based on v%d, and v%d is in force now", base, base+1); !ok || stale.Head != base+1 || len(stale.Changes) == 0 || !strings.Contains(got.Public, want) {
			t.Fatalf("round %d: the loser learned %q, %+v", round, got.Public, got.Detail)
		}
	}
	var all []console.Version
	for page := (console.Page{Limit: 100}); ; {
		items, next, err := e.policies.Versions(e.ctx, page)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, items...)
		if page.After = next; next == "" {
			break
		}
	}
	slices.Reverse(all)
	for i, v := range all {
		if v.Number != int64(i+1) || (i > 0 && v.Parent != all[i-1].Digest) {
			t.Fatalf("v%d at place %d follows %s", v.Number, i+1, v.Parent)
		}
	}
	published, refused := 0, 0
	for after := ""; ; {
		events, next, err := e.audit.List(e.ctx, console.AuditQuery{Page: console.Page{Limit: 200, After: after}})
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			switch ev.Action {
			case "policy.publish":
				published++
			case "policy.refused":
				refused++
			}
		}
		if after = next; next == "" {
			break
		}
	}
	if len(all) != rounds || published != rounds || refused < 1 || refused > 2 { // a refusal is told once a minute on each console
		t.Fatalf("%d versions, %d publications and %d refusals in the trail", len(all), published, refused)
	}
	e.feed.until(t, "the newest in Redis", func() bool { return e.feed.head.Version == rounds && e.feed.head.Digest == all[rounds-1].Digest })
}

func TestR088_OfTwentyPublishersOneWinsAndNumbersHaveNoGaps(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	base := e.publish(t, "100", 0).Number
	for round := range 3 {
		errs := atOnce(20, func(i int) error {
			_, err := e.policies.Publish(e.ctx, owner, document(fmt.Sprint(101+20*round+i)), nil, base, console.PublishOptions{})
			return err
		})
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if code := console.CodeOf(err); code != console.CodeConflict && code != console.CodeUnavailable {
				t.Fatal(err)
			}
		}
		base++
		if head := e.head(t); won != 1 || head != base {
			t.Fatalf("round %d: %d won, head %d", round, won, head)
		}
	}
}

func TestR088_RefusedPublicationsAreInTheTrailOnceAMinute(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ann := e.person(t, "Ann", console.RolePublisher)
	e.publish(t, "10", 0)
	stale := func(times int) {
		for range times {
			_, err := e.policies.Publish(e.ctx, ann, document("20"), nil, 0, console.PublishOptions{})
			wantCode(t, err, console.CodeConflict)
		}
	}
	stale(30)
	e.rules(t, always)
	for range 30 {
		_, err := e.policies.Publish(e.ctx, ann, document("20"), nil, 1, console.PublishOptions{})
		wantCode(t, err, console.CodeApproval)
	}
	e.clock.add(time.Minute)
	stale(2)
	_, err := e.policies.Publish(e.ctx, as(console.RoleViewer), document("20"), nil, 0, console.PublishOptions{})
	wantCode(t, err, console.CodeForbidden)
	var got []string
	for _, ev := range e.events(t) {
		if ev.Action == "policy.refused" {
			got = append(got, ev.Actor+" "+ev.Reason)
		}
	}
	slices.Reverse(got)
	want := []string{
		"Ann This is based on v0, and v1 is in force now.", "Ann Others have to approve this first.", "Ann This is based on v0, and v1 is in force now.",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("refusals %q", got)
	}
}

func TestC04_R095_RollbackIsAHigherVersionWithTheOldContent(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.proven(prover{})
	v1, err := e.policies.Publish(e.ctx, owner, document("10"), []byte(suite), 0, console.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.publish(t, "20", 1)
	before := len(e.events(t))
	v3, err := e.policies.Rollback(e.ctx, as(console.RolePublisher), 1, console.PublishOptions{Note: "too tight"})
	if err != nil {
		t.Fatal(err)
	}
	if v3.Number != 3 || v3.Digest != v1.Digest || v3.Kind != console.KindRollback || v3.RollbackOf != 1 || v3.Tests != suite || len(v3.Changes) == 0 {
		t.Fatalf("v3 %+v", v3)
	}
	events := e.events(t)
	if len(events) != before+1 || events[0].Action != "policy.rollback" || events[0].Reason != "too tight" || !strings.Contains(string(events[0].After), `"rollback_of":1`) {
		t.Fatalf("event %+v", events[0])
	}
	_, err = e.policies.Rollback(e.ctx, owner, 3, console.PublishOptions{})
	wantCode(t, err, console.CodeConflict)
	_, err = e.policies.Rollback(e.ctx, owner, 99, console.PublishOptions{})
	wantCode(t, err, console.CodeNotFound)
}

func TestC05_WhileRedisIsDownAPublicationIsSavedAndNotCalledLive(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	tr.enforce(tr.base, fleetIDs...)
	tr.env.feed.set(func() { tr.env.feed.down = errors.New("down") })
	v := tr.publish(t, "12", tr.base.Number)
	if tr.head(t) != v.Number {
		t.Fatalf("head %d", tr.head(t))
	}
	p, err := tr.fleet.Publication(tr.ctx, v.Number)
	if err != nil || p.Done() || p.On != 0 {
		t.Fatalf("publication %+v (%v)", p, err)
	}
	if c := tr.fleet.WaitVersion(tr.ctx, v.Number, 0); c.Done() {
		t.Fatalf("convergence %+v", c)
	}
	waitFor(t, "the outbox to say so", func() bool {
		var rows []console.OutboxRow
		err := tr.store.Read(tr.ctx, func(tx console.Tx) (err error) { rows, err = tx.PendingOutbox(tr.ctx, 10); return err })
		return err == nil && slices.ContainsFunc(rows, func(r console.OutboxRow) bool { return r.Ref == fmt.Sprint(v.Number) && r.LastError != "" })
	})
	tr.env.feed.set(func() { tr.env.feed.down = nil })
	tr.env.feed.until(t, "it in Redis", func() bool { return tr.env.feed.head.Version == v.Number && tr.env.feed.head.Digest == v.Digest })
}

func TestP03_ARestoredDatabasePublishesNothingOverWhatItLost(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	ann := tr.person(t, "Ann", console.RolePublisher)
	lost := policy.SignPolicy(tr.deps.Signer, testDeployment, 13, "", newest(t, "90"), tr.clock.now())
	tr.env.feed.set(func() { tr.env.feed.head, tr.env.feed.policies[13] = lost, lost })
	d := tr.draft(t, ann, document("80"))
	for name, publish := range map[string]func() error{
		"one step": func() error {
			_, err := tr.policies.Publish(tr.ctx, ann, document("80"), nil, tr.base.Number, console.PublishOptions{})
			return err
		},
		"draft": func() error {
			_, err := tr.policies.PublishDraft(tr.ctx, ann, d.ID, d.ETag, console.PublishOptions{})
			return err
		},
		"rollback": func() error { _, err := tr.policies.Rollback(tr.ctx, ann, 1, console.PublishOptions{}); return err },
	} {
		if got := errorWith(t, publish(), console.CodeConflict); !strings.Contains(got.Public, "v13") || !strings.Contains(got.Public, "Adopt") {
			t.Errorf("%s: %s", name, got.Public)
		}
	}
	// a program that knows of no confirmations gets a number above all that is known, and is warned
	other, err := tr.policies.Publish(tr.ctx, ann, document("85"), nil, tr.base.Number, console.PublishOptions{ConfirmTypedOnly: true})
	if err != nil || other.Number != 14 || len(other.Proof.Unconfirmed) != 1 || other.Proof.Unconfirmed[0].Code != console.ConfirmBehind {
		t.Fatalf("version %+v (%v)", other.Proof, err)
	}
}

func TestP03_AfterAdoptingHistoryIsMergedLikeAnyOther(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	ann := tr.person(t, "Ann", console.RolePublisher)
	lost := policy.SignPolicy(tr.deps.Signer, testDeployment, 13, "", newest(t, "90"), tr.clock.now())
	tr.env.feed.set(func() { tr.env.feed.head, tr.env.feed.policies[13] = lost, lost })
	d := tr.draft(t, ann, document("80"))
	if _, err := tr.rollouts.Adopt(tr.ctx, owner, "restored from last night"); err != nil {
		t.Fatal(err)
	}
	// what was based on the past is stale now, and merged like anything else
	_, err := tr.policies.PublishDraft(tr.ctx, ann, d.ID, d.ETag, console.PublishOptions{})
	wantCode(t, err, console.CodeConflict)
	merged, _, err := tr.policies.MergeDraft(tr.ctx, ann, d.ID, d.ETag)
	if err != nil || merged.Base != 13 {
		t.Fatalf("draft %+v (%v)", merged, err)
	}
	v, err := tr.policies.PublishDraft(tr.ctx, ann, d.ID, merged.ETag, console.PublishOptions{})
	if err != nil || v.Number != 14 || v.Parent != lost.Digest {
		t.Fatalf("version %+v (%v)", v, err)
	}
}

func TestP03_BreakGlassPublishesAboveWhatWasLost(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	ann := tr.person(t, "Ann", console.RolePublisher)
	lost := policy.SignPolicy(tr.deps.Signer, testDeployment, 13, "", newest(t, "90"), tr.clock.now())
	tr.env.feed.set(func() { tr.env.feed.head, tr.env.feed.policies[13] = lost, lost })
	glass := console.PublishOptions{BreakGlass: &console.BreakGlass{Reason: "the login is under attack", Password: rightPassword}}
	v, err := tr.policies.Publish(tr.ctx, ann, document("80"), nil, tr.base.Number, glass)
	if err != nil || v.Number != 14 || v.Proof.BreakGlass == "" {
		t.Fatalf("version %+v (%v)", v, err)
	}
	if open, err := tr.policies.Reviews(tr.ctx, true); err != nil || len(open) != 1 {
		t.Fatalf("reviews %+v (%v)", open, err)
	}
}

// dyingFeed is Redis as a console sees it that dies at its n-th call, before or
// after the call had its effect.
type dyingFeed struct {
	*fakeFeed
	mu    sync.Mutex
	left  int
	after bool
	die   func()
}

var errDied = errors.New("console died")

// at runs a call; false means that the console is dead and has no answer.
func (f *dyingFeed) at(call func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left--
	if f.left > 0 {
		call()
		return true
	}
	if f.left == 0 && f.after {
		call()
	}
	f.die()
	return false
}

func (f *dyingFeed) State(ctx context.Context) (s policy.FeedState, err error) {
	if !f.at(func() { s, err = f.fakeFeed.State(ctx) }) {
		return policy.FeedState{}, errDied
	}
	return s, err
}

func (f *dyingFeed) PublishPolicy(ctx context.Context, p policy.SignedPolicy) (s string, err error) {
	if !f.at(func() { s, err = f.fakeFeed.PublishPolicy(ctx, p) }) {
		return "", errDied
	}
	return s, err
}

func (f *dyingFeed) PutStamp(ctx context.Context, st policy.Stamp) (err error) {
	if !f.at(func() { err = f.fakeFeed.PutStamp(ctx, st) }) {
		return errDied
	}
	return err
}

// A console dies at any of its calls to Redis, before or after their effect,
// while a publication is on its way. Whatever was committed reaches Redis by
// another console, with the same bytes, and nothing else is there.
func TestC01_AConsoleThatDiesLeavesItsVersionToTheNext(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 6; n++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("call %d, after: %v", n, after), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				v := e.publish(t, "10", 0)
				ctx, die := context.WithCancel(t.Context())
				dying := e.deps
				dying.Feed = &dyingFeed{fakeFeed: e.feed, left: n, after: after, die: die}
				dead := make(chan error, 1)
				go func() { dead <- console.NewRelay(dying, e.store).Run(ctx) }()
				if err := <-dead; err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				e.feed.set(func() {
					if h := e.feed.head; h.Version != 0 && (h.Version != v.Number || h.Digest != v.Digest) {
						t.Errorf("Redis has v%d %s", h.Version, h.Digest)
					}
				})
				e.relay(t)
				e.feed.until(t, "the version", func() bool { return e.feed.head.Version == v.Number && e.feed.head.Digest == v.Digest })
				waitDrained(t, e)
			})
		}
	}
}

// history is a random one: two consoles publish, try, promote, stop and roll
// back in any order, and a gateway follows what Redis offers to all.
type history struct {
	*trial
	rng   *rand.Rand
	log   []string
	known []console.Version
}

func (h *history) act(t *testing.T) {
	t.Helper()
	head := h.head(t)
	running, err := h.rollouts.Current(h.ctx)
	if err != nil {
		t.Fatal(err)
	}
	var v console.Version
	kind, promoted := h.rng.IntN(6), false
	switch {
	case kind == 0 && running == nil:
		v, err = h.policies.Publish(h.ctx, owner, document(fmt.Sprint(50+h.rng.IntN(40))), nil, head, console.PublishOptions{Canary: &plan})
	case kind == 1 && running != nil:
		promoted = true
		h.clock.add(2 * time.Minute)
		v, err = h.rollouts.Promote(h.ctx, owner, running.Version, "")
	case kind == 2 && running != nil:
		v, err = h.rollouts.Stop(h.ctx, owner, running.Version, "enough")
	case kind == 3:
		v, err = h.policies.Rollback(h.ctx, owner, 1+h.rng.Int64N(head+2), console.PublishOptions{})
	case kind == 4:
		v, err = h.policies.Publish(h.ctx, owner, document("60"), nil, max(head-h.rng.Int64N(3), 0), console.PublishOptions{})
	default:
		v, err = h.policies.Publish(h.ctx, owner, document(fmt.Sprint(50+h.rng.IntN(40))), nil, head, console.PublishOptions{})
	}
	h.log = append(h.log, fmt.Sprintf("%d: v%d (%v)", kind, v.Number, console.CodeOf(err)))
	switch console.CodeOf(err) {
	case "":
		h.check(t, v, head, promoted)
	case console.CodeConflict, console.CodeNotFound:
	default:
		t.Fatalf("%v\nafter %v", err, h.log)
	}
}

// check holds a version against all before it.
func (h *history) check(t *testing.T, v console.Version, head int64, promoted bool) {
	t.Helper()
	for _, k := range h.known {
		if k.Number == v.Number && (k.Digest != v.Digest || !promoted) || k.Number > v.Number && !promoted {
			t.Fatalf("v%d %s after v%d %s: %v", v.Number, v.Digest, k.Number, k.Digest, h.log)
		}
	}
	if promoted {
		return
	}
	want := head + 1
	if len(h.known) > 0 {
		want = h.known[len(h.known)-1].Number + 1
	}
	if v.Number != want || v.Parent != mustVersion(t, h.env, head).Digest {
		t.Fatalf("v%d, want v%d on v%d: %v", v.Number, want, head, h.log)
	}
	if v.Kind == console.KindRollback && v.Digest != mustVersion(t, h.env, v.RollbackOf).Digest {
		t.Fatalf("v%d has not the content of v%d: %v", v.Number, v.RollbackOf, h.log)
	}
	h.known = append(h.known, v)
}

func TestI09_RandomHistoriesOnlyGrow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := &history{trial: newTrial(t), rng: rand.New(rand.NewPCG(seed, 9))}
			applied, digest := int64(0), ""
			for range 40 {
				h.act(t)
				h.env.feed.set(func() { // what a gateway sees that is on no trial
					if got := h.env.feed.head; got.Version < applied || (got.Version == applied && got.Digest != digest) {
						t.Errorf("Redis went from v%d to v%d: %v", applied, got.Version, h.log)
					}
					applied, digest = h.env.feed.head.Version, h.env.feed.head.Digest
				})
			}
			head := mustVersion(t, h.env, h.head(t))
			h.env.feed.until(t, "the newest", func() bool { return h.env.feed.head.Version == head.Number && h.env.feed.head.Digest == head.Digest })
			for n, p := range h.env.feed.policies {
				if v := mustVersion(t, h.env, n); v.Digest != p.Digest {
					t.Errorf("Redis has another v%d", n)
				}
			}
			if _, _, problem, err := h.audit.Verify(h.ctx); err != nil || problem != nil {
				t.Errorf("trail %+v (%v)", problem, err)
			}
		})
	}
}

func TestP03_AdoptingKeepsTheTestsThatTheDatabaseHas(t *testing.T) {
	t.Parallel()
	tr := newTrial(t)
	tr.proven(prover{})
	if _, err := tr.policies.Publish(tr.ctx, owner, document("20"), []byte(suite), tr.base.Number, console.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	lost := policy.SignPolicy(tr.deps.Signer, testDeployment, 13, "", newest(t, "90"), tr.clock.now())
	tr.env.feed.set(func() { tr.env.feed.head, tr.env.feed.policies[13] = lost, lost })
	v, err := tr.rollouts.Adopt(tr.ctx, owner, "restored from last night")
	if err != nil || v.Tests != suite {
		t.Fatalf("adopted v%d with the tests %q (%v)", v.Number, v.Tests, err)
	}
}
