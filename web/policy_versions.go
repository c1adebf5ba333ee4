package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) versionOf(r *http.Request) (console.Version, error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(chi.URLParam(r, "version"), "v"), 10, 64)
	if err != nil || n < 1 {
		return console.Version{}, &console.Error{Code: console.CodeNotFound, Public: "There is no such version."}
	}
	return s.Policies.Version(r.Context(), n)
}

func versionRow(v console.Version, head int64) views.VersionRow {
	row := views.VersionRow{Number: v.Number, Digest: v.Digest, Note: v.Note, Author: v.Author, CreatedAt: v.CreatedAt,
		RollbackOf: v.RollbackOf, Kind: string(v.Kind), Live: v.Number == head, Changes: len(v.Changes), BreakGlass: v.Proof.BreakGlass != ""}
	for _, a := range v.Proof.Approvals {
		row.Approvers = append(row.Approvers, a.Actor)
	}
	for _, c := range v.Changes {
		switch c.Effect {
		case policy.EffectTighter:
			row.Tighter++
		case policy.EffectLooser:
			row.Looser++
		}
		if c.Risk == "high" {
			row.High++
		}
	}
	return row
}

// orVersion is a page of a draft that, once the draft was published, leads to its
// version.
func (s *Server) orVersion(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		err := h(w, r)
		if !console.IsNotFound(err) {
			return err
		}
		n, verr := s.Policies.VersionOfDraft(r.Context(), chi.URLParam(r, "draft"))
		if verr != nil {
			return err
		}
		return s.redirect(w, r, ui.VersionURL(n), fmt.Sprintf("That draft was published as v%d.", n))
	}
}

func (s *Server) versionList(w http.ResponseWriter, r *http.Request) error {
	head, _, err := s.Policies.Head(r.Context())
	if err != nil {
		return err
	}
	p := views.VersionsProps{Frame: s.titled(r, "Versions"), Now: s.Now(), CanPublish: can(r, console.PermPublish), AsOf: r.URL.Query().Get("as_of")}
	status := http.StatusOK
	if p.AsOf != "" {
		n, problem, err := s.versionAsOf(r.Context(), p.AsOf)
		if err != nil {
			return err
		}
		if problem == "" {
			return s.redirect(w, r, ui.VersionURL(n), "")
		}
		p.AsOfError, status = problem, http.StatusUnprocessableEntity
	}
	page := pageOf(r)
	items, next, err := s.Policies.Versions(r.Context(), page)
	if err != nil {
		return err
	}
	canaries, err := s.canaries(r.Context())
	if err != nil {
		return err
	}
	effects, err := s.Effects.Of(r.Context(), items)
	if err != nil {
		return err
	}
	p.Pager = pagerOf(r, page, len(items), next)
	for _, v := range items {
		row := versionRow(v, head.Number)
		row.Canary = canaries[v.Number]
		putEffect(&row, effects[v.Number])
		p.Rows = append(p.Rows, row)
	}
	return s.render(w, r, status, views.Versions(p))
}

// putEffect fills in what became of a version.
func putEffect(row *views.VersionRow, e console.Effect) {
	row.Converged, row.Before, row.Since = ui.Unknown, shareText(e.Before), shareText(e.Since)
	if e.Replicas > 0 {
		row.Converged = fmt.Sprintf("%s, %s", ui.Span(e.After), counted(e.Replicas, "gateway"))
	}
}

// shareText is how much was refused; of no requests, nothing can be said.
func shareText(s *console.Share) string {
	switch {
	case s == nil:
		return ui.Unknown
	case s.Requests == 0:
		return "no requests"
	}
	return ui.Percent(percentOf(s.Refused, s.Requests))
}

// canaries are the last canaries that were not promoted, by version.
func (s *Server) canaries(ctx context.Context) (map[int64]string, error) {
	list, err := s.Rollouts.List(ctx, 200)
	if err != nil {
		return nil, err
	}
	out := map[int64]string{}
	for _, ro := range list {
		if ro.State != console.RolloutPromoted {
			out[ro.Version] = string(ro.State)
		}
	}
	return out, nil
}

// asOfPages bounds how far back "in force at" looks, in pages of 200.
const asOfPages = 100

// versionAsOf is the version that was in force at a time in UTC, or a problem
// for people.
func (s *Server) versionAsOf(ctx context.Context, text string) (n int64, problem string, err error) {
	at, perr := time.Parse(localTime, text)
	if perr != nil {
		return 0, "Must be a time, such as 2026-11-30T14:00.", nil //nolint:nilerr // the form says it
	}
	canaries, err := s.canaries(ctx)
	if err != nil {
		return 0, "", err
	}
	page := console.Page{Limit: 200}
	for range asOfPages {
		items, next, err := s.Policies.Versions(ctx, page)
		if err != nil {
			return 0, "", err
		}
		for _, v := range items {
			if !v.CreatedAt.After(at) && canaries[v.Number] == "" {
				return v.Number, "", nil
			}
		}
		if next == "" {
			break
		}
		page.After = next
	}
	return 0, "Nothing was published by then.", nil
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
		Number: v.Number, Against: against, Changes: len(changes), Risks: riskGroups(unrated(changes))}))
}

// unrated are changes without whom they concern.
func unrated(changes []policy.Change) []console.RatedChange {
	out := make([]console.RatedChange, len(changes))
	for i, c := range changes {
		out[i] = console.RatedChange{Change: c}
	}
	return out
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
