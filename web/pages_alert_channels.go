package web

import (
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) alertChannelList(w http.ResponseWriter, r *http.Request) error {
	return s.alertChannels(w, r, http.StatusOK, form.New(nil))
}

func (s *Server) alertChannels(w http.ResponseWriter, r *http.Request, status int, f *form.Form) error {
	list, err := s.Alerts.Channels(r.Context())
	if err != nil {
		return err
	}
	p := views.AlertChannelsProps{Frame: s.titled(r, "Channels"), Now: s.Now(), Tabs: alertTabs("channels"), CanManage: can(r, console.PermManageAlerts),
		New: views.AlertChannelFormProps{Action: ui.AlertChannelsURL(), Button: "Add channel", IsNew: true, NoMail: !s.Alerts.CanMail(), Form: f}}
	for _, c := range list {
		p.Rows = append(p.Rows, s.channelRow(c))
	}
	return s.render(w, r, status, views.AlertChannels(p))
}

func (s *Server) channelRow(c console.AlertChannel) views.AlertChannelRow {
	row := views.AlertChannelRow{ID: c.ID, Name: c.Name, Kind: string(c.Kind), Target: c.Target, Enabled: c.Enabled, Problem: c.Problem, SecretAt: at(c.SecretAt)}
	if c.OldUntil != nil && s.Now().Before(*c.OldUntil) {
		row.OldUntil = *c.OldUntil
	}
	return row
}

func (s *Server) alertChannelAdd(w http.ResponseWriter, r *http.Request) error {
	f := form.Parse(r, "name", "kind", "target")
	made, err := s.Alerts.AddChannel(r.Context(), actor(r), console.AlertChannelInput{Name: f.Get("name"), Kind: console.ChannelKind(f.Get("kind")), Target: f.Get("target"), Enabled: true})
	if err != nil {
		if status := s.take(f, err); status != 0 {
			return s.alertChannels(w, r, status, f)
		}
		return err
	}
	if made.Secret == "" {
		return s.redirect(w, r, ui.AlertChannelURL(made.Channel.ID, ""), "Added. Send a test.")
	}
	return s.showWebhookSecret(w, r, http.StatusCreated, made)
}

// showWebhookSecret is the one page that a webhook's secret is on.
func (s *Server) showWebhookSecret(w http.ResponseWriter, r *http.Request, status int, made console.NewChannel) error {
	w.Header().Set("Cache-Control", "no-store")
	p := views.WebhookSecretProps{Frame: s.titled(r, "Secret"), Name: made.Channel.Name, Secret: made.Secret, Until: at(made.Channel.OldUntil), Next: ui.AlertChannelURL(made.Channel.ID, "")}
	return s.render(w, r, status, views.WebhookSecret(p))
}

// channelOf finds one of the operators' channels.
func (s *Server) channelOf(r *http.Request) (console.AlertChannel, error) {
	list, err := s.Alerts.Channels(r.Context())
	if err != nil {
		return console.AlertChannel{}, err
	}
	id := chi.URLParam(r, "channel")
	if i := slices.IndexFunc(list, func(c console.AlertChannel) bool { return c.ID == id }); i >= 0 {
		return list[i], nil
	}
	return console.AlertChannel{}, &console.Error{Code: console.CodeNotFound, Public: "There is no such channel."}
}

func (s *Server) alertChannelPage(w http.ResponseWriter, r *http.Request) error {
	c, err := s.channelOf(r)
	if err != nil {
		return err
	}
	return s.alertChannelForm(w, r, http.StatusOK, c, form.New(map[string]string{"name": c.Name, "target": c.Target}), c.Enabled, "")
}

func (s *Server) alertChannelForm(w http.ResponseWriter, r *http.Request, status int, c console.AlertChannel, f *form.Form, enabled bool, problem string) error {
	return s.render(w, r, status, views.AlertChannelPage(views.AlertChannelPageProps{Frame: s.titled(r, c.Name), Now: s.Now(), Row: s.channelRow(c), Problem: problem,
		Form: views.AlertChannelFormProps{Action: ui.AlertChannelURL(c.ID, ""), Button: "Save", Kind: string(c.Kind), Enabled: enabled, Form: f}}))
}

func (s *Server) alertChannelSave(w http.ResponseWriter, r *http.Request) error {
	c, err := s.channelOf(r)
	if err != nil {
		return err
	}
	f := form.Parse(r, "name", "target")
	enabled := r.PostForm.Get("enabled") == "yes"
	_, err = s.Alerts.ChangeChannel(r.Context(), actor(r), c.ID, console.AlertChannelInput{Name: f.Get("name"), Target: f.Get("target"), Enabled: enabled})
	if err != nil {
		if status := s.take(f, err); status != 0 {
			return s.alertChannelForm(w, r, status, c, f, enabled, "")
		}
		return err
	}
	return s.redirect(w, r, ui.AlertChannelURL(c.ID, ""), "Saved.")
}

func (s *Server) alertChannelRemove(w http.ResponseWriter, r *http.Request) error {
	if err := s.Alerts.RemoveChannel(r.Context(), actor(r), chi.URLParam(r, "channel")); err != nil {
		return err
	}
	return s.redirect(w, r, ui.AlertChannelsURL(), "Removed.")
}

func (s *Server) alertChannelRotate(w http.ResponseWriter, r *http.Request) error {
	made, err := s.Alerts.RotateSecret(r.Context(), actor(r), chi.URLParam(r, "channel"))
	if err != nil {
		return s.channelActFailed(w, r, err)
	}
	return s.showWebhookSecret(w, r, http.StatusOK, made)
}

func (s *Server) alertChannelTest(w http.ResponseWriter, r *http.Request) error {
	v, err := s.Alerts.Test(r.Context(), actor(r), chi.URLParam(r, "channel"))
	if err != nil {
		return s.channelActFailed(w, r, err)
	}
	return s.redirect(w, r, ui.DeliveriesURL("channel="+v.ChannelID), "The test is on its way; what became of it stands here.")
}

// channelActFailed shows a channel with what kept an act from being done.
func (s *Server) channelActFailed(w http.ResponseWriter, r *http.Request, err error) error {
	f := form.New(nil)
	problem, status := s.problemOf(f, err)
	if status == 0 {
		return err
	}
	c, missing := s.channelOf(r)
	if missing != nil {
		return err
	}
	return s.alertChannelForm(w, r, status, c, form.New(map[string]string{"name": c.Name, "target": c.Target}), c.Enabled, problem)
}
