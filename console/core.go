package console

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/scenario"
)

const (
	// coreKept is how long what was computed of a draft is good for: tests may
	// name tenants, whose plans change.
	coreKept = time.Minute
	// coreBytes bounds what is remembered, by the size of sources: a document
	// takes about ten times its source.
	coreBytes   = 16 << 20
	coreEntries = 100
	// slowKept is how long it is remembered that tests took too long: others may
	// have kept them waiting.
	slowKept = 10 * time.Second
	// pageTests is how long a page waits for tests; publishTests how long a
	// publication does.
	pageTests    = 2 * time.Second
	publishTests = 20 * time.Second
	// rollbackTests is how long a rollback waits for tests, which cannot hold it up.
	rollbackTests = 5 * time.Second
)

// core is what of a draft is dear to compute, and depends on its content, its
// base and the version in force alone.
type core struct {
	at         time.Time
	doc        *policy.Document // nil when the source cannot be read; read it only
	report     policy.Report
	digest     string // of document and tests; "" when there is no document
	document   string // digest of the document alone
	before     *policy.Document
	changes    []policy.Change
	asked      *asking // by the documents alone
	mine       []policy.Change
	theirs     []policy.Change
	clashes    []string
	suite      policy.Report
	otherTests bool // than those in force
	results    []scenario.Result
	tested     bool  // whether results were asked for
	slow       bool  // the tests took too long
	untested   error // why the tests could not run
}

type coreKey struct {
	draft, etag string
	head        int64
}

// coreCache remembers the last few drafts that were looked at.
type coreCache struct {
	mu      sync.Mutex
	order   []coreKey // the last used at the end
	entries map[coreKey]*core
	sizes   map[coreKey]int
}

func (c *coreCache) get(k coreKey, now time.Time) *core {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[k]
	if e == nil || now.Sub(e.at) > coreKept {
		return nil
	}
	c.order = append(slices.DeleteFunc(c.order, func(o coreKey) bool { return o == k }), k)
	return e
}

func (c *coreCache) put(k coreKey, e *core, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries, c.sizes = map[coreKey]*core{}, map[coreKey]int{}
	}
	c.order = append(slices.DeleteFunc(c.order, func(o coreKey) bool { return o == k || o.draft == k.draft }), k)
	c.entries[k], c.sizes[k] = e, size
	total := 0
	for i := len(c.order) - 1; i >= 0; i-- {
		if total += c.sizes[c.order[i]]; i < len(c.order)-1 && (total > coreBytes || len(c.order)-i > coreEntries) {
			c.order = slices.Delete(c.order, 0, i+1)
			break
		}
	}
	for k := range c.entries {
		if !slices.Contains(c.order, k) {
			delete(c.entries, k)
			delete(c.sizes, k)
		}
	}
}

// docCache remembers the documents of a few versions, which never change.
type docCache struct {
	mu    sync.Mutex
	order []int64
	docs  map[int64]*policy.Document
}

const cachedDocs = 3

// of is a version's document, nil for the zero Version. It is shared: read it only.
func (c *docCache) of(v Version) (*policy.Document, error) {
	if v.Number == 0 {
		return nil, nil
	}
	c.mu.Lock()
	doc := c.docs[v.Number]
	c.mu.Unlock()
	if doc != nil {
		return doc, nil
	}
	doc, err := v.Document()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.docs == nil {
		c.docs = map[int64]*policy.Document{}
	}
	if c.docs[v.Number] == nil {
		c.order = append(c.order, v.Number)
		if len(c.order) > cachedDocs {
			delete(c.docs, c.order[0])
			c.order = slices.Delete(c.order, 0, 1)
		}
	}
	c.docs[v.Number] = doc
	return doc, nil
}

// core computes what is dear of a draft, without its tests, or remembers it.
func (s *Policies) core(ctx context.Context, d Draft) (*core, error) {
	base, head, err := s.basesOf(ctx, d)
	if err != nil && !IsNotFound(err) { // the base may be from before a restore
		return nil, err
	}
	return s.coreOn(ctx, d, base, head, false)
}

func (s *Policies) coreOn(ctx context.Context, d Draft, base, head Version, tests bool) (*core, error) {
	key := coreKey{d.ID, d.ETag, head.Number}
	if c := s.cores.get(key, s.d.Now()); c != nil && (c.tested || !tests) {
		return c, nil
	}
	c := &core{at: s.d.Now(), tested: tests, otherTests: d.Tests != head.Tests}
	var err error
	if c.doc, c.report, err = s.parse(ctx, []byte(d.Source)); err != nil {
		return nil, err
	}
	if c.before, err = s.documents.of(head); err != nil {
		return nil, err
	}
	if c.doc != nil {
		c.document = policy.DigestOf(c.doc.Canonical())
		c.digest = contentDigest(c.document, d.Tests)
		c.changes = policy.Diff(c.before, c.doc)
		c.asked = askedOf(c.before, c.doc, c.changes, c.at)
		if err := s.threeWay(c, base, head); err != nil {
			return nil, err
		}
	}
	if tests {
		s.coreTests(ctx, c, d.Tests)
	}
	if c.slow {
		c.at = c.at.Add(slowKept - coreKept)
	}
	if ctx.Err() == nil && c.untested == nil {
		s.cores.put(key, c, len(d.Source)+len(d.Tests))
	}
	return c, nil
}

// threeWay tells what was published since the base, and what of that clashes.
func (s *Policies) threeWay(c *core, base, head Version) error {
	if base.Number == head.Number {
		c.mine = c.changes
		return nil
	}
	old, err := s.documents.of(base)
	if err != nil {
		return err
	}
	c.mine = policy.Diff(old, c.doc)
	if c.before != nil {
		c.theirs = policy.Diff(old, c.before)
		_, c.clashes = policy.Merge(old, c.doc, c.before)
	}
	return nil
}

// coreTests runs the tests of a draft that can be read, for as long as a page waits.
func (s *Policies) coreTests(ctx context.Context, c *core, tests string) {
	if tests == "" {
		return
	}
	doc := c.doc
	if !c.report.OK() {
		doc = nil // its problems come first; the suite is read all the same
	}
	ctx, cancel := context.WithTimeout(ctx, pageTests)
	defer cancel()
	c.results, c.suite, c.untested = s.runTests(ctx, s.proving, doc, []byte(tests))
	if errors.Is(c.untested, context.DeadlineExceeded) {
		c.slow, c.untested = true, nil
	}
}
