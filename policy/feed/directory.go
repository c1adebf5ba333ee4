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

// Errors of lookups.
var (
	// ErrUnknown means that there is no such key or tenant: Redis said so, and
	// the directory in it is whole.
	ErrUnknown = errors.New("not in the directory")
	// ErrUnavailable means that it cannot be told whether there is one. It says
	// nothing against the caller and must not be remembered against him.
	ErrUnavailable = errors.New("directory cannot be asked")

	errReplay = errors.New("sequence below one seen before")
)

// Defaults of DirectoryConfig.
const (
	DefaultEntries       = 100_000
	DefaultMaxStale      = 10 * time.Minute
	DefaultLookupTimeout = 25 * time.Millisecond
)

// DirectoryConfig is what a Directory needs.
type DirectoryConfig struct {
	Config
	PublicKeys []ed25519.PublicKey // 1 or 2
	StateDir   string              // keeps what is cached; "" keeps nothing. The caller holds its lock
	Entries    int                 // records cached; default DefaultEntries (about 1 KiB each)
	MaxStale   time.Duration       // how long the cache holds without Redis; default DefaultMaxStale
	Timeout    time.Duration       // of one lookup; default DefaultLookupTimeout
	Poll       time.Duration       // default 0.8 s; ± 10 % on each wait
	OnChange   func()              // called after the place moved; must not block

	// OnRecord is called for each record that may have changed, and OnReset when
	// any may have: after they left the cache, before OnChange, from Run's
	// goroutine. Neither may block.
	OnRecord func(kind policy.RecordKind, id string)
	OnReset  func()
}

// Directory answers for keys and tenants from a bounded cache, and from Redis
// where that does not know. Run keeps the cache true. It is safe for concurrent use.
type Directory struct {
	cfg     DirectoryConfig
	keys    keys
	cache   *cache
	breaker breaker
	file    *journalFile  // nil without a state folder
	rings   chan struct{} // asks for a poll
	slots   chan struct{} // bounds lookups under way
	counts  directoryCounts

	badLogged atomic.Int64 // Unix ns of the last line about a bad record
	badUnsaid atomic.Int64 // bad records since

	place   atomic.Pointer[policy.Place]
	contact atomic.Int64 // Unix ns of the last poll that confirmed the cache; 0 never
	whole   atomic.Bool  // that poll found an epoch, and the last poll was answered

	mu        sync.Mutex
	diskFault string

	cursor int64 // last change followed; of Run's goroutine alone
	asked  bool  // Run's goroutine: Redis answered the last poll
}

type directoryCounts struct {
	hits, misses, unknown, unavailable, bad atomic.Int64
}

// lookupsAtOnce bounds the connections that lookups take.
const lookupsAtOnce = 32

// NewDirectory checks cfg, lists everything that is wrong with it and loads what
// was cached on disk. A file that cannot be used is reported in Stats and
// treated as absent.
func NewDirectory(cfg DirectoryConfig) (*Directory, error) {
	base, err := cfg.withDefaults()
	if err := errors.Join(err, checkPublicKeys(cfg.PublicKeys)); err != nil {
		return nil, fmt.Errorf("feed directory: %w", err)
	}
	cfg.Config = base
	cfg.setDefaults()
	d := &Directory{
		cfg: cfg, keys: keys{cfg.Namespace},
		rings: make(chan struct{}, 1), slots: make(chan struct{}, lookupsAtOnce),
	}
	d.place.Store(&policy.Place{})
	if d.cache, err = newCache(cfg.Entries, newJournal(cfg.StateDir != "")); err != nil {
		return nil, fmt.Errorf("feed directory: %w", err)
	}
	d.cache.verify, d.cache.badFound = d.verify, d.badRecord
	if cfg.StateDir != "" {
		d.file = newJournalFile(directoryPath(cfg.StateDir), d)
		d.load()
	}
	return d, nil
}

func (c *DirectoryConfig) setDefaults() {
	if c.Entries <= 0 {
		c.Entries = DefaultEntries
	}
	if c.MaxStale <= 0 {
		c.MaxStale = DefaultMaxStale
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultLookupTimeout
	}
	if c.Poll <= 0 {
		c.Poll = defaultPoll
	}
	if c.OnChange == nil {
		c.OnChange = func() {}
	}
	if c.OnRecord == nil {
		c.OnRecord = func(policy.RecordKind, string) {}
	}
	if c.OnReset == nil {
		c.OnReset = func() {}
	}
}

func (d *Directory) load() {
	f, contact, err := loadDirectory(d.file.path)
	if err == nil && f.lines > 0 && f.head.Deployment != d.cfg.Deployment {
		err = fmt.Errorf("directory file is of deployment %q", f.head.Deployment)
	}
	if err != nil {
		d.noteDisk(context.Background(), err)
		return
	}
	if f.lines == 0 {
		return
	}
	for _, r := range f.records {
		d.cache.restore(r)
	}
	if now := d.cfg.Now(); contact.After(now) {
		contact = now // a clock that stepped back must not stretch MaxStale further
	}
	d.contact.Store(contact.UnixNano())
	d.place.Store(&f.head.Place)
	d.cursor = f.head.Place.Seq
}

// Run follows the changes and keeps the file until ctx ends, and returns ctx's
// error. Without it nothing is answered from the cache for longer than MaxStale,
// and lookups that failed repeatedly are not tried again.
func (d *Directory) Run(ctx context.Context) error {
	var writing sync.WaitGroup
	if d.file != nil {
		// The last write comes after the last change.
		fileCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
		writing.Go(func() { d.file.run(fileCtx) })
		defer writing.Wait()
		defer stop()
	}
	return follow(ctx, followConfig{
		client: d.cfg.Client, bell: d.keys.bell(), word: "directory", poll: d.cfg.Poll, log: d.cfg.Log,
		do: d.poll, rings: d.rings,
	})
}

// Place is the position up to which changes have been applied here.
func (d *Directory) Place() policy.Place { return *d.place.Load() }

// DirectoryStats counts what a Directory did since its start.
type DirectoryStats struct {
	Hits        int64 // answered from the cache
	Misses      int64 // lookups sent to Redis, shared ones once
	Unknown     int64 // ErrUnknown answers
	Unavailable int64 // ErrUnavailable answers
	BadRecords  int64 // refused for signature, shape or sequence
	Entries     int   // records cached
	Negative    int   // misses remembered
	Contact     time.Time
	Whole       bool   // Redis answers and has a full directory
	BreakerOpen bool   // lookups are not tried at the moment
	Disk        string // what is wrong with the file; "" when nothing is
}

// Stats is a snapshot of the counters. Contact is the last time that Redis
// confirmed the cache, zero when it never did.
func (d *Directory) Stats() DirectoryStats {
	d.mu.Lock()
	fault := d.diskFault
	d.mu.Unlock()
	s := DirectoryStats{
		Hits: d.counts.hits.Load(), Misses: d.counts.misses.Load(), Unknown: d.counts.unknown.Load(),
		Unavailable: d.counts.unavailable.Load(), BadRecords: d.counts.bad.Load(),
		Contact: d.lastContact(), Whole: d.whole.Load(), BreakerOpen: d.breaker.open.Load(), Disk: fault,
	}
	s.Entries, s.Negative = d.cache.sizes()
	return s
}

func (d *Directory) lastContact() time.Time {
	if ns := d.contact.Load(); ns != 0 {
		return time.Unix(0, ns).UTC()
	}
	return time.Time{}
}

func (d *Directory) noteDisk(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	d.mu.Lock()
	changed := text != d.diskFault
	d.diskFault = text
	d.mu.Unlock()
	if changed && err != nil {
		d.cfg.Log.ErrorContext(ctx, "directory file", "error", err)
	}
}
