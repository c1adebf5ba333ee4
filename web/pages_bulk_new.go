package web

import (
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// bulkField bounds one field of a form that carries a file.
const bulkField = 4 << 10

// chosen are the rows that were ticked in a list.
type chosen struct{ tenants, kids []string }

func (c chosen) words() string {
	switch {
	case len(c.tenants) > 0:
		return counted(len(c.tenants), "tenant") + " chosen"
	case len(c.kids) > 0:
		return counted(len(c.kids), "key") + " chosen"
	}
	return ""
}

func (s *Server) bulkNew(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	f := form.Query(r, "kind", "plan")
	f.Value["token"], f.Value["format"], f.Value["unused_days"] = form.NewToken(), "csv", "90"
	return s.bulkForm(w, r, http.StatusOK, f, chosen{q["tenants[]"], q["kids[]"]})
}

func (s *Server) bulkForm(w http.ResponseWriter, r *http.Request, status int, f *form.Form, rows chosen) error {
	in, err := s.inForce(r.Context())
	if err != nil {
		return err
	}
	kind := console.BulkKind(f.Get("kind"))
	p := views.BulkFormProps{Frame: s.titled(r, "New bulk job"), Form: f, Token: f.Raw("token"), Plans: in.planOptions(ui.Option{Label: "Choose…"}, f.Raw("plan")),
		Tenants: rows.tenants, KIDs: rows.kids, Selected: rows.words()}
	if slices.Contains(console.BulkKinds(), kind) && can(r, kind.Needs()) {
		words := bulkKindWords(kind)
		p.Kind, p.Title, p.Text, p.Imports, p.Columns = string(kind), words.title, words.text, kind.Imports(), words.columns
		if !kind.OfTenants() {
			p.Plans[0].Label = "any"
		}
		return s.render(w, r, status, views.BulkForm(p))
	}
	for _, k := range console.BulkKinds() {
		if can(r, k.Needs()) {
			words := bulkKindWords(k)
			p.Kinds = append(p.Kinds, views.BulkKindCard{Kind: string(k), Title: words.title, Text: words.text})
		}
	}
	return s.render(w, r, status, views.BulkForm(p))
}

// bulkCreate makes a job and lets it be checked. The form of an import carries
// its file last, which is read as it comes.
func (s *Server) bulkCreate(w http.ResponseWriter, r *http.Request) error {
	f, rows, file, err := bulkInput(r)
	if err != nil {
		return err
	}
	in := console.NewBulk{Kind: console.BulkKind(f.Get("kind")), Reason: f.Get("reason"), IdempotencyKey: f.Get("token")}
	if in.Kind.Imports() {
		in.Format = console.BulkFormat(f.Get("format"))
		if file != nil {
			in.Name, in.Input = file.FileName(), file
		} else {
			f.Fail("input", "Choose a file.")
		}
	} else {
		in.Selection = bulkSelection(f, rows)
	}
	if !form.IsToken(in.IdempotencyKey) {
		return &console.Error{Code: console.CodeInvalid, Public: "This form is incomplete. Open it again and send it from there."}
	}
	var job console.BulkJob
	if f.OK() {
		job, err = s.Bulk.Create(r.Context(), actor(r), in)
	}
	if err == nil && f.OK() {
		return s.redirect(w, r, ui.BulkJobURL(job.ID), "")
	}
	status := http.StatusUnprocessableEntity
	if err != nil {
		if status = s.take(f, err); status == 0 {
			return err
		}
		for name, text := range f.Errors {
			f.Fail(strings.TrimPrefix(name, "selection."), text)
		}
		if e := f.Error("selection"); e != "" {
			f.Message = e
		}
	}
	_, _ = io.Copy(io.Discard, r.Body) // a browser shows no answer before it has sent all
	return s.bulkForm(w, r, status, f, rows)
}

// bulkSelection is what a job that reads no file is about.
func bulkSelection(f *form.Form, rows chosen) console.BulkSelection {
	sel := console.BulkSelection{Tenants: rows.tenants, KIDs: rows.kids, Plan: f.Get("plan"), Environment: f.Get("environment"), ToPlan: f.Get("to_plan"), Extend: f.Get("extend") == "yes"}
	switch console.BulkKind(f.Get("kind")) {
	case console.BulkRevokeUnused:
		days, err := strconv.Atoi(f.Get("unused_days"))
		if err != nil {
			f.Fail("unused_days", "Write a number of days such as 90.")
		}
		sel.UnusedDays = days
	case console.BulkSetExpiry:
		if end, ok := endOfDay(f); ok {
			sel.ExpiresAt = end
		}
	default: // needs nothing more
	}
	return sel
}

// bulkInput reads the form: as others are, or with a file at its end.
func bulkInput(r *http.Request) (*form.Form, chosen, *multipart.Part, error) {
	fields := []string{"kind", "reason", "token", "format", "plan", "environment", "to_plan", "unused_days", "expires_at", "extend"}
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		f := form.Parse(r, fields...)
		return f, chosen{r.PostForm["tenants[]"], r.PostForm["kids[]"]}, nil, nil
	}
	bad := func(err error) error {
		return &console.Error{Code: console.CodeInvalid, Public: "The form could not be read.", Cause: err}
	}
	m, err := r.MultipartReader()
	if err != nil {
		return nil, chosen{}, nil, bad(err)
	}
	f := form.New(nil)
	for range len(fields) + 1 {
		part, err := m.NextPart()
		if errors.Is(err, io.EOF) {
			return f, chosen{}, nil, nil
		}
		if err != nil {
			return nil, chosen{}, nil, bad(err)
		}
		if part.FormName() == "input" {
			if part.FileName() == "" {
				part = nil
			}
			return f, chosen{}, part, nil
		}
		text, err := io.ReadAll(io.LimitReader(part, bulkField+1))
		if err != nil || len(text) > bulkField {
			return nil, chosen{}, nil, bad(fmt.Errorf("field %q: %d bytes, %w", part.FormName(), len(text), err))
		}
		if _, twice := f.Value[part.FormName()]; twice {
			return nil, chosen{}, nil, bad(fmt.Errorf("field %q is there twice", part.FormName()))
		}
		if slices.Contains(fields, part.FormName()) {
			f.Value[part.FormName()] = strings.ToValidUTF8(string(text), "\uFFFD")
		}
	}
	return nil, chosen{}, nil, bad(errors.New("more fields than the form has"))
}
