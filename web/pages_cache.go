package web

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views/ui"
)

// inForce is the published policy as pages need it.
type inForce struct {
	Version   int64 // 0: nothing has been published
	Compiled  *policy.Compiled
	Markers   []ui.Marker // the newest publications, newest first
	Published time.Time   // of Version
}

// label is "v42", or "" when nothing has been published.
func (f inForce) label() string {
	if f.Version == 0 {
		return ""
	}
	return "v" + strconv.FormatInt(f.Version, 10)
}

// routes are those of the policy in force; nil when nothing has been published.
func (f inForce) routes() []policy.Route {
	if f.Compiled == nil {
		return nil
	}
	return f.Compiled.Document.Routes
}

// pageCache keeps the policy in force, so that pages that ask for themselves
// every two seconds do not read and compile it each time. The zero value is
// empty. It is safe for concurrent use.
type pageCache struct {
	mu   sync.Mutex
	held bool
	last inForce
}

// inForce returns the published policy. The health snapshot, at most a second
// old, tells when the one that is held is out of date; the one that is held also
// serves while PostgreSQL is away.
func (s *Server) inForce(ctx context.Context) (inForce, error) {
	h := s.Fleet.Health(ctx)
	s.pages.mu.Lock()
	defer s.pages.mu.Unlock()
	if s.pages.held && !h.At.IsZero() && (h.Version == s.pages.last.Version || !h.PostgresUp) {
		return s.pages.last, nil
	}
	f, err := s.loadInForce(ctx)
	if err != nil {
		return inForce{}, err
	}
	s.pages.held, s.pages.last = true, f
	return f, nil
}

func (s *Server) loadInForce(ctx context.Context) (inForce, error) {
	head, ok, err := s.Policies.Head(ctx)
	if err != nil || !ok {
		return inForce{}, err
	}
	doc, err := head.Document()
	if err != nil {
		return inForce{}, fmt.Errorf("read version %d: %w", head.Number, err)
	}
	compiled, err := policy.Compile(doc)
	if err != nil {
		return inForce{}, fmt.Errorf("compile version %d: %w", head.Number, err)
	}
	versions, _, err := s.Policies.Versions(ctx, console.Page{Limit: 50})
	if err != nil {
		return inForce{}, err
	}
	f := inForce{Version: head.Number, Compiled: compiled, Published: head.CreatedAt}
	for _, v := range versions {
		f.Markers = append(f.Markers, ui.Marker{At: v.CreatedAt, Label: "v" + strconv.FormatInt(v.Number, 10)})
	}
	return f, nil
}

// planOptions are the plans of the policy in force, with the present one even if
// the policy lacks it.
func (f inForce) planOptions(first ui.Option, present string) []ui.Option {
	options := []ui.Option{first}
	if f.Compiled != nil {
		for _, name := range planNames(f.Compiled.Document) {
			options = append(options, ui.Option{Value: name, Label: name})
		}
	}
	if present != "" && !f.hasPlan(present) {
		options = append(options, ui.Option{Value: present, Label: present + " (not in the policy)"})
	}
	return options
}

func (f inForce) hasPlan(name string) bool {
	if f.Compiled == nil {
		return false
	}
	_, ok := f.Compiled.Document.Plans[name]
	return ok
}
