package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/memstore"
)

// leaseStore is memory whose renewals and releases can fail, or wait.
type leaseStore struct {
	*memstore.Store
	mu       sync.Mutex
	down     error
	renewing func() // called while a renewal is on its way
	renewals int
	released []string
}

func (s *leaseStore) set(down error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *leaseStore) broken() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

func (s *leaseStore) Take(ctx context.Context, d *limiter.Draw) (limiter.Outcome, error) {
	out, err := s.Store.Take(ctx, d)
	if down := s.broken(); down != nil { // it was done, and the answer got lost
		return limiter.Outcome{}, down
	}
	return out, err
}

func (s *leaseStore) Renew(ctx context.Context, leases []limiter.Lease) ([]bool, error) {
	s.mu.Lock()
	s.renewals++
	renewing := s.renewing
	s.mu.Unlock()
	if renewing != nil {
		renewing()
	}
	if down := s.broken(); down != nil {
		return nil, down
	}
	return s.Store.Renew(ctx, leases)
}

func (s *leaseStore) Release(ctx context.Context, leases []limiter.Lease) error {
	if down := s.broken(); down != nil {
		return down
	}
	s.mu.Lock()
	for _, l := range leases {
		s.released = append(s.released, l.ID)
	}
	s.mu.Unlock()
	return s.Store.Release(ctx, leases)
}

// holding runs a limiter with leases of ten seconds in a bubble of virtual time.
func holding(t *testing.T, test func(t *testing.T, l *limiter.Limiter, s *leaseStore)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &leaseStore{Store: memstore.New(time.Now)}
		l, err := limiter.New(limiter.Config{Store: s})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Run(ctx) }()
		test(t, l, s)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
	})
}

// pass lets time go by in the bubble.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the bubble's clock: no time passes
	synctest.Wait()
}

// admit asks for one of max places.
func admit(l *limiter.Limiter, max int64, i int) limiter.Decision {
	draw := limiter.Draw{Slots: []limiter.Slot{slotOf(tenant("ten_a"), max, i)}}
	return l.Decide(context.Background(), limiter.Request{Route: "r", Fail: closed, Draw: draw})
}

func TestHold_R028_ARequestLongerThanItsLeaseKeepsItsPlace(t *testing.T) {
	t.Parallel()
	holding(t, func(t *testing.T, l *limiter.Limiter, s *leaseStore) {
		hold := l.Hold(admit(l, 1, 1).Leases)
		for i := range 40 { // 80 s, with a lease of 10 s
			pass(2 * time.Second)
			if d := admit(l, 1, 100+i); d.Allowed {
				t.Fatalf("after %d s a second request got the only place", 2*(i+1))
			}
		}
		if got := l.LeasesHeld(); got != 1 || s.renewals < 20 || s.renewals > 30 {
			t.Errorf("%d held, %d renewals in 80 s", got, s.renewals)
		}
		hold.Release()
		if d := admit(l, 1, 2); !d.Allowed || l.LeasesHeld() != 0 {
			t.Errorf("after the release: %+v, %d held", d, l.LeasesHeld())
		}
		hold.Release() // again: nobody else's place gets free
		if d := admit(l, 1, 3); d.Allowed {
			t.Error("a second release freed a stranger's place")
		}
	})
}

func TestHold_R026_WithoutAHoldThePlaceIsFreeWhenTheLeaseHasEnded(t *testing.T) {
	t.Parallel()
	holding(t, func(t *testing.T, l *limiter.Limiter, _ *leaseStore) {
		admit(l, 1, 1) // and the process is killed
		pass(10*time.Second - time.Microsecond)
		if admit(l, 1, 2).Allowed {
			t.Fatal("free before the lease has ended")
		}
		pass(time.Microsecond)
		if !admit(l, 1, 3).Allowed {
			t.Error("a killed holder leaks its place")
		}
	})
}

func TestHold_R027_UnknownReleasesChangeNothing(t *testing.T) {
	t.Parallel()
	holding(t, func(t *testing.T, l *limiter.Limiter, _ *leaseStore) {
		admit(l, 1, 1)
		stranger := slotOf(tenant("ten_a"), 1, 9)
		for range 3 {
			if err := l.ReleaseLeases(context.Background(), []limiter.Lease{stranger.Held()}); err != nil {
				t.Fatal(err)
			}
		}
		if admit(l, 1, 2).Allowed {
			t.Error("releases of unknown leases made room")
		}
	})
}

func TestHold_OneCallRenewsAllThatAreDue(t *testing.T) {
	t.Parallel()
	holding(t, func(t *testing.T, l *limiter.Limiter, s *leaseStore) {
		for i := range 3000 {
			l.Hold(admit(l, 10_000, i).Leases)
		}
		pass(4 * time.Second)
		if s.renewals != 3 { // of at most 1024 leases each
			t.Errorf("%d calls for 3000 leases, want 3", s.renewals)
		}
		if l.LeasesHeld() != 3000 {
			t.Errorf("%d held", l.LeasesHeld())
		}
	})
}

func TestHold_RenewalsThatFailAreCountedAndRepeated(t *testing.T) {
	t.Parallel()
	holding(t, func(t *testing.T, l *limiter.Limiter, s *leaseStore) {
		l.Hold(admit(l, 1, 1).Leases)
		s.set(errDown)
		pass(5 * time.Second)
		failed := l.Stats().RenewFailed
		s.set(nil)
		pass(10 * time.Second)
		if failed < 2 || l.Stats().LeasesLost != 0 {
			t.Errorf("%d renewals failed, %d leases lost", failed, l.Stats().LeasesLost)
		}
		if admit(l, 1, 2).Allowed {
			t.Error("the place was lost although the store was back before the lease ended")
		}
	})
}

// TestHold_ALeaseWhosePlaceIsGoneIsLostAndComesBackWhenThereIsOne.
func TestHold_ALeaseWhosePlaceIsGoneIsLostAndComesBackWhenThereIsOne(t *testing.T) {
	t.Parallel()
	holding(t, func(t *testing.T, l *limiter.Limiter, s *leaseStore) {
		l.Hold(admit(l, 1, 1).Leases)
		s.set(errDown)
		pass(11 * time.Second)
		s.set(nil)
		stranger := slotOf(tenant("ten_a"), 1, 2) // another replica takes the place first
		if out, err := s.Store.Take(context.Background(), &limiter.Draw{Slots: []limiter.Slot{stranger}}); err != nil || !out.Admitted {
			t.Fatal(out, err)
		}
		pass(4 * time.Second)
		if got := l.Stats().LeasesLost; got != 1 {
			t.Errorf("%d lost, want 1", got)
		}
		pass(14 * time.Second) // the stranger's lease has ended
		if admit(l, 1, 3).Allowed {
			t.Error("the request under way did not get its place back")
		}
	})
}

func TestHold_AReleaseDuringARenewalFollowsIt(t *testing.T) {
	t.Parallel()
	holding(t, func(t *testing.T, l *limiter.Limiter, s *leaseStore) {
		hold := l.Hold(admit(l, 1, 1).Leases)
		s.mu.Lock()
		s.renewing = hold.Release // while the renewal is on its way
		s.mu.Unlock()
		pass(5 * time.Second)
		if d := admit(l, 1, 2); !d.Allowed || l.LeasesHeld() != 0 {
			t.Errorf("the renewal made the released lease again: %+v, %d held", d, l.LeasesHeld())
		}
	})
}

func TestHold_AReleaseThatFailsIsRepeatedUntilTheStoreIsBack(t *testing.T) {
	t.Parallel()
	holding(t, func(t *testing.T, l *limiter.Limiter, s *leaseStore) {
		hold := l.Hold(admit(l, 1, 1).Leases)
		s.set(errDown)
		hold.Release()
		pass(time.Second)
		if got := l.LeasesHeld(); got != 0 {
			t.Errorf("%d still renewed", got)
		}
		s.set(nil)
		pass(time.Second)
		if !admit(l, 1, 2).Allowed {
			t.Error("the release was not repeated")
		}
	})
}

func TestHold_ReleasesAreGivenUpWhenTheLeaseHasEnded(t *testing.T) {
	t.Parallel()
	holding(t, func(t *testing.T, l *limiter.Limiter, s *leaseStore) {
		hold := l.Hold(admit(l, 1, 1).Leases)
		s.set(errDown)
		hold.Release()
		if got := l.PendingReleases(); got != 1 {
			t.Fatalf("%d pending", got)
		}
		pass(11 * time.Second)
		if got := l.PendingReleases(); got != 0 {
			t.Errorf("%d still pending after the lease has ended", got)
		}
	})
}

// TestHold_R026_AnAnswerThatGotLostLeaksNoPlace: the store may have made the lease.
func TestHold_R026_AnAnswerThatGotLostLeaksNoPlace(t *testing.T) {
	t.Parallel()
	holding(t, func(t *testing.T, l *limiter.Limiter, s *leaseStore) {
		s.set(errDown)
		if d := admit(l, 1, 1); d.Allowed || !d.Degraded {
			t.Fatalf("%+v", d)
		}
		s.set(nil)
		pass(time.Second)
		if !admit(l, 1, 2).Allowed || !slices.Contains(s.released, "lease-0000000000000001") {
			t.Errorf("the place of a lost answer is taken; released %v", s.released)
		}
	})
}

func TestHold_OfNothingDoesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.Hold(nil).Release()
	(*limiter.Hold)(nil).Release()
	if err := r.ReleaseLeases(context.Background(), nil); err != nil || r.LeasesHeld() != 0 {
		t.Error(err)
	}
	r.fail(5)
	held := slotOf(tenant("ten_a"), 1, 1)
	if err := r.ReleaseLeases(context.Background(), []limiter.Lease{held.Held()}); err == nil {
		t.Error("released while the store is away")
	}
}

func TestHold_ManyAtOnceAreReleasedOnce(t *testing.T) {
	t.Parallel()
	holding(t, func(t *testing.T, l *limiter.Limiter, s *leaseStore) {
		var wg sync.WaitGroup
		for i := range 50 {
			hold := l.Hold(admit(l, 100, i).Leases)
			for range 3 {
				wg.Go(hold.Release)
			}
		}
		wg.Wait()
		slices.Sort(s.released)
		if got := len(slices.Compact(slices.Clone(s.released))); got != 50 || len(s.released) != 50 {
			t.Errorf("%d releases of %d leases, want 50 of 50: %s", len(s.released), got, fmt.Sprint(s.released))
		}
	})
}
