package feed

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/policy"
)

// WatcherConfig is what a Watcher needs.
type WatcherConfig struct {
	Config
	PublicKeys []ed25519.PublicKey // 1 or 2
	StateDir   string              // holds the last good copy; "" keeps none. The caller holds its lock
	Poll       time.Duration       // default 0.8 s; ± 10 % on each wait
	Console    *Console            // asked while Redis is away; nil: never
	Pull       time.Duration       // how often then; default 1 s ± 10 %
	Replica    string              // this replica's id, for canaries; "" takes none
	Spread     time.Duration       // a new version is read within a random part of it; default 40 ms
	OnChange   func()              // called after a new version is in force and when the NACK changes; must not block
}

// Snapshot is a version in force. It is immutable: a request takes one and
// keeps to it from start to end.
type Snapshot struct {
	Version  int64
	Digest   string // recomputed from Body
	Parent   string
	Since    time.Time // when it came into force on this replica
	Compiled *policy.Compiled
	Body     []byte
}

// Status is what a Watcher can say of itself.
type Status struct {
	Version   int64 // in force; 0 when none is
	Digest    string
	Since     time.Time
	NACK      *policy.NACK  // why the offered version is not used; nil when it is
	StampAge  time.Duration // -1 when there is no valid stamp
	HighWater int64         // below it nothing is ever accepted
	PolledAt  time.Time     // last time Redis answered; zero when never
	Reachable bool          // the last poll was answered
	Disk      string        // what is wrong with the copy on disk; "" when nothing is
	Unsaved   bool          // the version in force is not on disk (yet): a restart would lead back behind it
}

// staleAfter is the age at which a stamp says that Redis is frozen or replayed:
// the console renews it every minute.
const staleAfter = 2 * time.Minute

// Stale reports whether nobody has said for two minutes that the version in
// force is current: Redis may be frozen, or an old copy. It decides nothing.
func (s Status) Stale() bool { return s.StampAge > staleAfter || s.StampAge < 0 && s.Version > 0 }

// Watcher follows the published policy. It never goes back a version, also
// across restarts, and keeps what it has when Redis loses it or offers
// something that cannot be used.
type Watcher struct {
	cfg     WatcherConfig
	keys    keys
	disk    *policyDisk
	current atomic.Pointer[Snapshot]

	mu        sync.Mutex // guards what follows
	nack      *policy.NACK
	mark      mark
	stamp     stampSeen
	polledAt  time.Time
	reachable bool
	diskFault string
	onDisk    int64       // version of the copy that is certainly there
	unsaved   *policyCopy // whose saving failed; tried again at the next poll

	saving sync.WaitGroup
	puller *puller // nil when there is no console to ask
	// refusedPulled says that the last answer of a console was of no use.
	refusedPulled atomic.Bool

	tried     refusal // of Run's goroutine alone, as is
	ration    *ration // of documents read from Redis
	signature []byte  // of the version in force, as it was last verified and saved
	canaryTag string  // of the canary's record that was last looked at, good or not
	canary    *policy.Canary
}

// NewWatcher checks cfg and loads the last good copy from disk, verified like
// one from Redis. A copy that cannot be used is reported in Status and treated
// as absent. Errors are of the configuration alone.
func NewWatcher(cfg WatcherConfig) (*Watcher, error) {
	base, err := cfg.withDefaults()
	if err := errors.Join(err, checkPublicKeys(cfg.PublicKeys)); err != nil {
		return nil, fmt.Errorf("feed watcher: %w", err)
	}
	cfg.Config = base
	if cfg.Poll <= 0 {
		cfg.Poll = defaultPoll
	}
	if cfg.Spread <= 0 {
		cfg.Spread = defaultSpread
	}
	if cfg.OnChange == nil {
		cfg.OnChange = func() {}
	}
	w := &Watcher{cfg: cfg, keys: keys{cfg.Namespace}, disk: newPolicyDisk(cfg.StateDir), ration: newRation(fetchBurst, fetchEvery)}
	if cfg.Console != nil {
		w.puller = newPuller(cfg.Console, cfg.Pull)
	}
	w.load()
	return w, nil
}

// Current is the version in force, nil while there is none.
func (w *Watcher) Current() *Snapshot { return w.current.Load() }

// Status is a snapshot of the Watcher's state.
func (w *Watcher) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Status{
		NACK: w.nack, StampAge: -1, HighWater: w.mark.Version,
		PolledAt: w.polledAt, Reachable: w.reachable, Disk: w.diskFault,
	}
	if c := w.current.Load(); c != nil {
		s.Version, s.Digest, s.Since = c.Version, c.Digest, c.Since
		s.Unsaved = w.onDisk < c.Version
	}
	if w.stamp.version > 0 {
		s.StampAge = max(0, w.cfg.Now().Sub(w.stamp.issued))
	}
	return s
}

// Run follows Redis until ctx ends, and returns ctx's error.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.saving.Wait()
	c := followConfig{client: w.cfg.Client, bell: w.keys.bell(), word: "policy", poll: w.cfg.Poll, log: w.cfg.Log, do: w.poll}
	if w.puller != nil {
		c.rings = w.puller.rings
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			w.pull(ctx)
		}()
		defer func() { <-stopped }()
	}
	return follow(ctx, c)
}
