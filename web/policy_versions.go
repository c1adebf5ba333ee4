package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// publishWait is how long a publishing POST waits for gateways before it shows
// the publication page, which goes on by itself.
const publishWait = 1500 * time.Millisecond

// snapshotWait is how long it then waits for the snapshot that pages show.
const snapshotWait = 1200 * time.Millisecond

func (s *Server) versionOf(r *http.Request) (console.Version, error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(chi.URLParam(r, "version"), "v"), 10, 64)
	if err != nil || n < 1 {
		return console.Version{}, &console.Error{Code: console.CodeNotFound, Public: "There is no such version."}
	}
	return s.Policies.Version(r.Context(), n)
}

func versionRow(v console.Version, head int64) views.VersionRow {
	row := views.VersionRow{Number: v.Number, Digest: v.Digest, Note: v.Note, Author: v.Author, CreatedAt: v.CreatedAt,
		RollbackOf: v.RollbackOf, Kind: string(v.Kind), Live: v.Number == head, Changes: len(v.Changes)}
	for _, c := range v.Changes {
		switch c.Effect {
		case policy.EffectTighter:
			row.Tighter++
		case policy.EffectLooser:
			row.Looser++
		}
	}
	return row
}

func (s *Server) versionList(w http.ResponseWriter, r *http.Request) error {
	head, _, err := s.Policies.Head(r.Context())
	if err != nil {
		return err
	}
	page := pageOf(r)
	items, next, err := s.Policies.Versions(r.Context(), page)
	if err != nil {
		return err
	}
	p := views.VersionsProps{Frame: s.titled(r, "Versions"), Now: s.Now(), Pager: pagerOf(r, page, len(items), next)}
	for _, v := range items {
		p.Rows = append(p.Rows, versionRow(v, head.Number))
	}
	return s.render(w, r, http.StatusOK, views.Versions(p))
}

func (s *Server) versionPage(w http.ResponseWriter, r *http.Request) error {
	v, err := s.versionOf(r)
	if err != nil {
		return err
	}
	return s.renderVersion(w, r, http.StatusOK, v, form.New(nil))
}

func (s *Server) renderVersion(w http.ResponseWriter, r *http.Request, status int, v console.Version, f *form.Form) error {
	head, _, err := s.Policies.Head(r.Context())
	if err != nil {
		return err
	}
	p := views.VersionProps{Frame: s.titled(r, fmt.Sprintf("v%d", v.Number)), Now: s.Now(), Version: versionRow(v, head.Number), Head: head.Number,
		Status: s.publication(r, v, head.Number), Changes: diffRows(console.PlainChanges(v.Changes)), Form: f, CanPublish: can(r, console.PermPublish)}
	// Rolling back always goes to something else than what is in force.
	p.RollbackTo = v.Number
	if v.Number == head.Number {
		p.RollbackTo = s.previous(r, head.Number)
	}
	if p.RollbackTo > 0 {
		if changes, err := s.Policies.Diff(r.Context(), head.Number, p.RollbackTo); err == nil {
			p.RollbackChanges = diffRows(changes)
		}
	}
	return s.render(w, r, status, views.Version(p))
}

// previous is the newest version below n; 0 when there is none.
func (s *Server) previous(r *http.Request, n int64) int64 {
	items, _, err := s.Policies.Versions(r.Context(), console.Page{Limit: 2})
	if err != nil {
		return 0
	}
	for _, v := range items {
		if v.Number < n {
			return v.Number
		}
	}
	return 0
}

func (s *Server) versionStatus(w http.ResponseWriter, r *http.Request) error {
	v, err := s.versionOf(r)
	if err != nil {
		return err
	}
	head, _, err := s.Policies.Head(r.Context())
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, views.VersionStatus(s.publication(r, v, head.Number)))
}

// settle waits for the gateways to take up a version that was just published,
// and then for the snapshot that pages show to know it, so that the page after
// the publication tells the truth at once. Both waits are short; the page goes
// on by itself.
func (s *Server) settle(ctx context.Context, n int64) {
	c := s.Fleet.WaitVersion(ctx, n, publishWait)
	if !c.Known {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, snapshotWait)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		on := 0
		h := s.Fleet.Health(ctx)
		for _, rep := range h.Replicas {
			if rep.Version >= n {
				on++
			}
		}
		if h.Version >= n && on >= c.On {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// publication says which gateways enforce a version, all from one snapshot.
func (s *Server) publication(r *http.Request, v console.Version, head int64) views.PublicationProps {
	h := s.Fleet.Health(r.Context())
	p := views.PublicationProps{Version: v.Number, Head: head, Now: s.Now(), Known: h.FleetKnown, Since: h.RedisSince}
	for _, rep := range h.Replicas {
		if rep.Status == console.StatusGone {
			continue
		}
		row := publicationRow(rep, v)
		if p.Of++; row.On {
			p.On, p.After = p.On+1, max(p.After, row.Took)
		}
		if rep.NACK != nil && rep.NACK.Version == v.Number {
			p.Nacks++
		}
		p.Rows = append(p.Rows, row)
	}
	slices.SortFunc(p.Rows, func(a, b views.PublicationRow) int { return strings.Compare(a.ID, b.ID) })
	return p
}

func publicationRow(rep console.Replica, v console.Version) views.PublicationRow {
	row := views.PublicationRow{ID: rep.ID, Host: rep.Host, Zone: rep.Zone, Version: rep.Version, Status: strings.ReplaceAll(string(rep.Status), "-", " "), Age: rep.Age,
		On: rep.Version == v.Number && rep.Digest == v.Digest && rep.Status != console.StatusSilent}
	if took := rep.Since.Sub(v.CreatedAt); row.On && took >= 0 && took < time.Hour {
		row.Took, row.After = took, ui.Span(took)
	}
	if rep.NACK != nil {
		row.NACK = rep.NACK.Code + ": " + rep.NACK.Detail
	}
	return row
}

func (s *Server) versionDiff(w http.ResponseWriter, r *http.Request) error {
	v, err := s.versionOf(r)
	if err != nil {
		return err
	}
	against, err := strconv.ParseInt(strings.TrimPrefix(r.URL.Query().Get("against"), "v"), 10, 64)
	if err != nil || against < 0 {
		head, _, herr := s.Policies.Head(r.Context())
		if herr != nil {
			return herr
		}
		against = head.Number
	}
	changes, err := s.Policies.Diff(r.Context(), against, v.Number)
	if err != nil {
		return err
	}
	return s.render(w, r, http.StatusOK, views.VersionDiff(views.VersionDiffProps{Frame: s.titled(r, fmt.Sprintf("v%d against v%d", v.Number, against)),
		Number: v.Number, Against: against, Changes: diffRows(changes)}))
}

func (s *Server) versionRollback(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "note")
	v, err := s.versionOf(r)
	if err != nil {
		return err
	}
	if f.Get("note") == "" {
		f.Fail("note", "Say why; it stands beside the version for ever.")
		return s.renderVersion(w, r, http.StatusUnprocessableEntity, v, f)
	}
	to, err := s.Policies.Rollback(r.Context(), actor(r), v.Number, console.PublishOptions{Note: f.Get("note")})
	if ce, ok := errors.AsType[*console.Error](err); ok && (ce.Code == console.CodeInvalid || ce.Code == console.CodeConflict) {
		status := s.take(f, err)
		if report, ok := ce.Detail.(policy.Report); ok && !report.OK() {
			f.Message += " " + report.Error()
		}
		return s.renderVersion(w, r, status, v, f)
	}
	if err != nil {
		return err
	}
	s.settle(r.Context(), to.Number)
	return s.redirect(w, r, ui.VersionURL(to.Number), fmt.Sprintf("Rolled back: v%d has the content of v%d.", to.Number, v.Number))
}

// pageOf reads cursor and page size from the query string.
func pageOf(r *http.Request) console.Page {
	p := console.Page{After: r.URL.Query().Get("after"), Limit: 50}
	if n, err := strconv.Atoi(r.URL.Query().Get("limit")); err == nil && slices.Contains([]int{50, 100, 200}, n) {
		p.Limit = n
	}
	return p
}

// pagerOf keeps the query string and moves its cursor.
func pagerOf(r *http.Request, page console.Page, shown int, next string) ui.PagerProps {
	with := func(set map[string]string) string {
		q := r.URL.Query()
		for k, v := range set {
			q.Set(k, v)
			if v == "" {
				q.Del(k)
			}
		}
		if len(q) == 0 {
			return r.URL.Path
		}
		return r.URL.Path + "?" + q.Encode()
	}
	p := ui.PagerProps{Shown: shown}
	if page.After != "" {
		p.First = with(map[string]string{"after": ""})
	}
	if next != "" {
		p.Next = with(map[string]string{"after": next})
	}
	for _, n := range []int{50, 100, 200} {
		p.Sizes = append(p.Sizes, ui.PageSize{N: n, URL: with(map[string]string{"limit": strconv.Itoa(n), "after": ""}), Current: n == page.Limit})
	}
	return p
}
