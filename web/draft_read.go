package web

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// reading is a draft as it was read. Several requests share one, so nothing in
// it is changed once it is made; a form changes a clone.
type reading struct {
	doc    *policy.Document // nil when the source has not the shape of one
	report policy.Report
	unkept []policy.Problem // those that writing doc out would lose, see lostBy
	marks  partMarks        // what differs from the base
	// lineless says that it was never read from text: problems have no lines.
	lineless bool
}

// editor is what the pages of a draft share.
type editor struct {
	draft console.Draft
	reading
	head     console.Version
	message  string          // above the page
	conflict []policy.Change // what saving again would change in the stored draft
}

func (s *Server) loadEditor(ctx context.Context, id string) (*editor, error) {
	d, err := s.Policies.GetDraft(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.editorOf(ctx, d, false)
}

// editorOf reads a draft; lines asks for the lines of its problems, too.
func (s *Server) editorOf(ctx context.Context, d console.Draft, lines bool) (*editor, error) {
	head, _, err := s.Policies.Head(ctx)
	if err != nil {
		return nil, err
	}
	rd, err := s.readDraft(ctx, d, lines)
	if err != nil {
		return nil, err
	}
	return &editor{draft: d, head: head, reading: rd}, nil
}

// largeSource is the size from which documents are read one at a time and kept
// once they are read, in bytes.
const largeSource = 256 << 10

// alone waits for its turn to read a large document.
func (s *Server) alone(ctx context.Context, size int) (release func(), err error) {
	if size < largeSource {
		return func() {}, nil
	}
	select {
	case s.large <- struct{}{}:
		return func() { <-s.large }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait to read a large document: %w", ctx.Err())
	}
}

// readDraft reads a draft's source and sets it against its base. A large one is
// read once for as long as it stays as it is; with lines it is read again when
// its problems would have none.
func (s *Server) readDraft(ctx context.Context, d console.Draft, lines bool) (reading, error) {
	release, err := s.alone(ctx, len(d.Source))
	if err != nil {
		return reading{}, err
	}
	defer release()
	key := d.ID + " " + d.ETag
	if rd, ok := s.reads.get(key, s.Now()); ok && len(d.Source) >= largeSource && (!rd.lineless || !lines || rd.report.OK()) {
		return rd, nil
	}
	var rd reading
	rd.doc, rd.report = s.Policies.Validate(ctx, []byte(d.Source))
	rd.unkept = lostBy(rd.doc, rd.report)
	if err := s.keepRead(ctx, d, &rd); err != nil {
		return reading{}, err
	}
	return rd, nil
}

// keepRead sets a reading against the draft's base, and keeps it if it is large.
func (s *Server) keepRead(ctx context.Context, d console.Draft, rd *reading) error {
	if rd.doc != nil {
		base, err := s.versionDocument(ctx, d.Base)
		if err != nil && !console.IsNotFound(err) {
			return err
		}
		rd.marks = marksOf(base, rd.doc)
	}
	if len(d.Source) >= largeSource {
		s.reads.put(d.ID+" "+d.ETag, *rd, s.Now())
	}
	return nil
}

// readFor is how long a reading is kept: what it says of tenants' plans may
// change with them.
const readFor = time.Minute

// keptReads bounds the large documents that are held in memory.
const keptReads = 4

// readCache holds the large drafts and versions that were read last. The zero
// value is empty. It is safe for concurrent use.
type readCache struct {
	mu    sync.Mutex
	order []string // the one that was put last stands last
	reads map[string]keptRead
}

type keptRead struct {
	reading
	at time.Time
}

func (c *readCache) get(key string, now time.Time) (reading, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.reads[key]
	return k.reading, ok && now.Sub(k.at) < readFor
}

func (c *readCache) put(key string, r reading, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reads == nil {
		c.reads = map[string]keptRead{}
	}
	if _, ok := c.reads[key]; !ok {
		c.order = append(c.order, key)
	}
	c.reads[key] = keptRead{r, now}
	for len(c.order) > keptReads {
		delete(c.reads, c.order[0])
		c.order = c.order[1:]
	}
}

// versionDocument is the document of a version; nil for version 0. Large ones
// are kept like drafts: a version never changes.
func (s *Server) versionDocument(ctx context.Context, n int64) (*policy.Document, error) {
	if n == 0 {
		return nil, nil //nolint:nilnil // Diff takes nil for the empty document
	}
	key := fmt.Sprintf("v%d", n)
	if rd, ok := s.reads.get(key, s.Now()); ok {
		return rd.doc, nil
	}
	v, err := s.Policies.Version(ctx, n)
	if err != nil {
		return nil, err
	}
	doc, err := v.Document()
	if err != nil {
		return nil, fmt.Errorf("read version %d: %w", n, err)
	}
	if len(v.Body) >= largeSource {
		s.reads.put(key, reading{doc: doc}, s.Now())
	}
	return doc, nil
}

// partMarks say what a draft does to the parts of its base.
type partMarks struct {
	changed map[section]string // by the draft's parts: "new" or "changed"
	removed []string           // titles of what the base has and the draft lacks
}

// marksOf compares part by part. A route is the same part when it has the same
// name.
func marksOf(base, doc *policy.Document) partMarks {
	m := partMarks{changed: map[section]string{}}
	if base == nil {
		base = &policy.Document{}
	}
	mark := func(s section, differs bool) {
		if differs {
			m.changed[s] = "changed"
		}
	}
	for _, kind := range []string{"general", "global", "shared"} {
		s := section{Kind: kind}
		mark(s, len(partDiff(base, doc, s)) > 0)
	}
	for _, name := range planNames(doc) {
		s := section{"plan", name}
		if _, ok := base.Plans[name]; !ok {
			m.changed[s] = "new"
		} else {
			mark(s, len(partDiff(base, doc, s)) > 0)
		}
	}
	for _, name := range planNames(base) {
		if _, ok := doc.Plans[name]; !ok {
			m.removed = append(m.removed, "Plan "+name)
		}
	}
	m.routes(base.Routes, doc.Routes)
	return m
}

func (m *partMarks) routes(base, now []policy.Route) {
	old := make(map[string]*policy.Route, len(base))
	for i := range base {
		old[base[i].Name] = &base[i]
	}
	have := make(map[string]bool, len(now))
	for i := range now {
		r := &now[i]
		have[r.Name] = true
		switch was, ok := old[r.Name]; {
		case !ok:
			m.changed[routeSection(i)] = "new"
		case !reflect.DeepEqual(*was, *r) && len(routeDiff(*was, *r)) > 0: // an order that means nothing is no change
			m.changed[routeSection(i)] = "changed"
		}
	}
	for i := range base {
		if !have[base[i].Name] {
			m.removed = append(m.removed, "Route "+base[i].Name)
		}
	}
}

// partDiff is what a draft changes in one of its parts; all of it when the base
// lacks the part.
func partDiff(base, doc *policy.Document, s section) []policy.Change {
	was, is := &policy.Document{}, &policy.Document{}
	if base == nil {
		base = was
	}
	switch s.Kind {
	case "plan":
		if p, ok := base.Plans[s.Key]; ok {
			was.Plans = map[string]policy.Plan{s.Key: p}
		}
		is.Plans = map[string]policy.Plan{s.Key: doc.Plans[s.Key]}
	case "route":
		is.Routes = []policy.Route{doc.Routes[s.index()]}
		for i := range base.Routes {
			if base.Routes[i].Name == is.Routes[0].Name {
				was.Routes = base.Routes[i : i+1]
			}
		}
	case "global":
		was.Global, is.Global = base.Global, doc.Global
	case "shared":
		was.Shared, is.Shared = base.Shared, doc.Shared
	default:
		was, is = general(base), general(doc)
	}
	return policy.Diff(was, is)
}

func routeDiff(was, is policy.Route) []policy.Change {
	return policy.Diff(&policy.Document{Routes: []policy.Route{was}}, &policy.Document{Routes: []policy.Route{is}})
}

// general is a document's first part alone.
func general(d *policy.Document) *policy.Document {
	return &policy.Document{Description: d.Description, ClientIP: d.ClientIP, Credentials: d.Credentials, User: d.User, ReplicasExpected: d.ReplicasExpected}
}
