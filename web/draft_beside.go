package web

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// shownOutage bounds the routes that the panel beside a draft lists.
const shownOutage = 12

// besideURL is where the panel beside a draft is loaded from.
func besideURL(draft string) string { return ui.DraftURL(draft) + "/beside" }

// besideAtFirst is the panel of a page that has just come: what it tells may take
// a while to compute.
func besideAtFirst(draft string) views.DraftBesideProps {
	return views.DraftBesideProps{Poll: besideURL(draft), Review: ui.DraftURL(draft) + "/review"}
}

// draftBeside answers with the panel beside a draft, as it is saved now.
func (s *Server) draftBeside(w http.ResponseWriter, r *http.Request) error {
	e, err := s.loadEditor(r.Context(), chi.URLParam(r, "draft"))
	if err != nil {
		return err
	}
	ready, err := s.Policies.Ready(r.Context(), actor(r), e.draft.ID)
	if err != nil {
		return err
	}
	p := besideAtFirst(e.draft.ID)
	p.Loaded = true
	checks := checksOf(e, ready)
	p.Checks = checks[:min(3, len(checks))] // document, tests and simulation
	if len(ready.Changes) > 0 {
		p.Touches = fmt.Sprintf("%s: %s.", counted(len(ready.Changes), "change"), effectCounts(ready.Changes))
		p.Widest = widestText(ready.Changes)
	}
	if can(r, console.PermEditDrafts) && e.doc != nil && e.report.OK() && ready.Trial == nil {
		p.TryURL = ui.DraftURL(e.draft.ID) + "/simulate"
	}
	if e.doc != nil {
		if err := s.putOutage(r, &p, e); err != nil {
			return err
		}
	}
	return s.render(w, r, http.StatusOK, views.DraftBeside(p))
}

// widestText is whom the change that concerns most concerns.
func widestText(changes []console.RatedChange) string {
	var most *console.Impact
	for _, c := range changes {
		if c.Impact != nil && (most == nil || c.Impact.Tenants > most.Tenants ||
			c.Impact.Tenants == most.Tenants && c.Impact.RequestsPerDay > most.RequestsPerDay) {
			most = c.Impact
		}
	}
	switch {
	case most == nil:
		return ""
	case most.Tenants < 0 && most.RequestsPerDay < 0:
		return "Whom it concerns is unknown."
	case most.RequestsPerDay < 0:
		return fmt.Sprintf("The widest concerns %s (%s); their requests are unknown.", counted(int(most.Tenants), "tenant"), most.Source)
	case most.Tenants < 0:
		return fmt.Sprintf("The widest concerns about %s requests a day (%s).", ui.Int(most.RequestsPerDay), most.Source)
	}
	return fmt.Sprintf("The widest concerns %s and about %s requests a day (%s).", counted(int(most.Tenants), "tenant"), ui.Int(most.RequestsPerDay), most.Source)
}

// putOutage fills in what a minute without Redis would admit: routes where that
// changes first, then those that admit without a bound.
func (s *Server) putOutage(r *http.Request, p *views.DraftBesideProps, e *editor) error {
	replicas := s.Fleet.Health(r.Context()).Of
	p.Replica = ui.Unknown
	if replicas > 0 {
		p.Replica = counted(replicas, "gateway")
	}
	now := map[string]policy.StoreFailure{}
	if in, err := s.inForce(r.Context()); err != nil {
		return err
	} else if in.Compiled != nil {
		for _, rt := range in.Compiled.Document.Routes {
			now[rt.Name] = rt.OnStoreFailure
		}
	}
	var unbounded []views.OutageRow
	for _, rt := range e.doc.Routes {
		was, known := now[rt.Name]
		row := views.OutageRow{Route: rt.Name, Then: worstText(rt.OnStoreFailure, replicas)}
		if known {
			row.Now = worstText(was, replicas)
		}
		if row.Then == "no bound" {
			row.Tone = "warn"
		}
		switch {
		case row.Now != row.Then:
			p.Outage = append(p.Outage, row)
		case row.Tone != "":
			unbounded = append(unbounded, row)
		}
	}
	p.Outage = append(p.Outage, unbounded...)
	p.Outage = p.Outage[:min(len(p.Outage), shownOutage)]
	return nil
}
