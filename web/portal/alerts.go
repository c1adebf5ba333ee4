package portal

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	views "github.com/headgate/headgate/views/portal"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) alertList(w http.ResponseWriter, r *http.Request, v *visit) error {
	return s.alertPage(w, r, v, http.StatusOK, form.New(nil), form.New(nil))
}

// alertPage shows marks, channels and what was told, with two forms as they were sent.
func (s *Server) alertPage(w http.ResponseWriter, r *http.Request, v *visit, status int, mark, channel *form.Form) error {
	list, err := s.Portal.AlertList(r.Context(), v.actor)
	if err != nil {
		return err
	}
	now := s.Now()
	p := views.AlertsProps{Frame: s.frame(v, "Alerts", "alerts"), Now: now, Form: mark, Channel: channel, CanManage: v.can(console.PermOwnMembers), CanMail: s.Alerts.CanMail(), CanSend: s.Alerts.CanSend()}
	for _, t := range list.Marks {
		p.Rows = append(p.Rows, s.alertRow(v.tenant.ID, t, list.Alerts))
	}
	for _, c := range list.Channels {
		row := views.ChannelRow{ID: c.ID, Name: c.Name, Kind: string(c.Kind), Target: c.Target, Enabled: c.Enabled, Problem: c.Problem, Webhook: c.Kind == console.ChannelWebhook}
		if c.OldUntil != nil && now.Before(*c.OldUntil) {
			row.OldUntil = *c.OldUntil
		}
		p.Channels = append(p.Channels, row)
	}
	for _, a := range list.Alerts {
		row := views.ToldRow{Words: a.Words, At: a.OpenedAt, Over: a.Resolution}
		if a.ResolvedAt != nil {
			row.OverAt = *a.ResolvedAt
		}
		p.Told = append(p.Told, row)
	}
	for _, d := range list.Deliveries {
		p.Messages = append(p.Messages, views.MessageRow{ID: d.ID, Subject: d.Subject, Channel: d.ChannelName, State: string(d.State), Problem: d.Problem, Attempts: d.Attempts, At: d.CreatedAt})
	}
	for _, m := range list.Members {
		if m.Email != "" {
			p.Mails = append(p.Mails, m.Email)
		}
	}
	return s.render(w, r, status, views.Alerts(p))
}

// alertRow is a mark and where the tenant stands.
func (s *Server) alertRow(tenant string, t console.Threshold, told []console.Alert) views.AlertRow {
	now := s.Now()
	m := s.minute(now, tenant)
	row := views.AlertRow{ID: t.ID, Now: "unknown"}
	for _, a := range told {
		row.Open = row.Open || a.Open() && a.RuleID == t.ID
	}
	switch t.Kind {
	case console.ThresholdRefused:
		row.Text = fmt.Sprintf("%d %% of a minute's requests or more are refused", t.Value)
		if s.known(now) {
			share := 0.0
			if all := decided(m); all > 0 {
				share = 100 * float64(m.Refused) / float64(all)
			}
			row.Now = ui.Num(share) + " %"
		}
	case console.ThresholdRequests:
		row.Text = ui.Int(t.Value) + " requests or more in a minute"
		if s.known(now) {
			row.Now = ui.Int(decided(m))
		}
	case console.ThresholdQuota:
		row.Text, row.Now = fmt.Sprintf("%d %% of the quota or more are used", t.Value), "see Usage"
	}
	return row
}

func (s *Server) alertAdd(w http.ResponseWriter, r *http.Request, v *visit) error {
	f := form.Parse(r, "kind", "value")
	value, err := strconv.ParseInt(f.Get("value"), 10, 64)
	if err != nil {
		f.Fail("value", "A whole number.")
		return s.alertPage(w, r, v, http.StatusUnprocessableEntity, f, form.New(nil))
	}
	if err := s.Portal.AddThreshold(r.Context(), v.actor, console.ThresholdKind(f.Get("kind")), value); err != nil {
		if status := s.take(f, err); status != 0 {
			return s.alertPage(w, r, v, status, f, form.New(nil))
		}
		return err
	}
	return s.redirect(w, r, v.url("alerts"), "Added.")
}

func (s *Server) alertRemove(w http.ResponseWriter, r *http.Request, v *visit) error {
	if err := s.Portal.RemoveThreshold(r.Context(), v.actor, chi.URLParam(r, "alert")); err != nil {
		return err
	}
	return s.redirect(w, r, v.url("alerts"), "Removed.")
}

func (s *Server) channelAdd(w http.ResponseWriter, r *http.Request, v *visit) error {
	f := form.Parse(r, "name", "kind", "target")
	made, err := s.Alerts.AddChannel(r.Context(), v.actor, console.AlertChannelInput{Name: f.Get("name"), Kind: console.ChannelKind(f.Get("kind")), Target: f.Get("target"), Enabled: true})
	if err != nil {
		if status := s.take(f, err); status != 0 {
			return s.alertPage(w, r, v, status, form.New(nil), f)
		}
		return err
	}
	if made.Secret == "" {
		return s.redirect(w, r, v.url("alerts"), "Added. Send a test.")
	}
	return s.showSecret(w, r, v, http.StatusCreated, made)
}

// showSecret is the one page that a webhook's secret is on.
func (s *Server) showSecret(w http.ResponseWriter, r *http.Request, v *visit, status int, made console.NewChannel) error {
	w.Header().Set("Cache-Control", "no-store")
	var until time.Time
	if made.Channel.OldUntil != nil {
		until = *made.Channel.OldUntil
	}
	return s.render(w, r, status, views.ChannelSecret(views.ChannelSecretProps{Frame: s.frame(v, "Secret", "alerts"), Name: made.Channel.Name, Secret: made.Secret, Until: until}))
}

func (s *Server) channelTest(w http.ResponseWriter, r *http.Request, v *visit) error {
	if _, err := s.Alerts.Test(r.Context(), v.actor, chi.URLParam(r, "channel")); err != nil {
		return s.channelFailed(w, r, v, err)
	}
	return s.redirect(w, r, v.url("alerts"), "The test is on its way; what became of it stands below.")
}

func (s *Server) channelRotate(w http.ResponseWriter, r *http.Request, v *visit) error {
	made, err := s.Alerts.RotateSecret(r.Context(), v.actor, chi.URLParam(r, "channel"))
	if err != nil {
		return s.channelFailed(w, r, v, err)
	}
	return s.showSecret(w, r, v, http.StatusOK, made)
}

func (s *Server) channelRemove(w http.ResponseWriter, r *http.Request, v *visit) error {
	if err := s.Alerts.RemoveChannel(r.Context(), v.actor, chi.URLParam(r, "channel")); err != nil {
		return err
	}
	return s.redirect(w, r, v.url("alerts"), "Removed.")
}

// channelFailed shows the page with what kept an act from being done.
func (s *Server) channelFailed(w http.ResponseWriter, r *http.Request, v *visit, err error) error {
	f := form.New(nil)
	if status := s.take(f, err); status != 0 {
		return s.alertPage(w, r, v, status, form.New(nil), f)
	}
	return err
}
