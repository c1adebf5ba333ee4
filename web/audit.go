package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

func (s *Server) auditList(w http.ResponseWriter, r *http.Request) error {
	f := form.Query(r, "actor", "action", "object", "object_id", "tenant")
	page := pageOf(r)
	items, next, err := s.Audit.List(r.Context(), console.AuditQuery{Actor: f.Get("actor"), Action: f.Get("action"), Object: f.Get("object"),
		ObjectID: f.Get("object_id"), TenantID: f.Get("tenant"), Page: page})
	if status := s.take(f, err); status != 0 {
		return s.render(w, r, status, views.Audit(views.AuditProps{Frame: s.titled(r, "Audit"), Now: s.Now(), Form: f}))
	}
	if err != nil {
		return err
	}
	p := views.AuditProps{Frame: s.titled(r, "Audit"), Now: s.Now(), Form: f, Pager: pagerOf(r, page, len(items), next)}
	for _, v := range f.Value {
		p.Filtered = p.Filtered || v != ""
	}
	for _, e := range items {
		p.Rows = append(p.Rows, auditRow(e))
	}
	return s.render(w, r, http.StatusOK, views.Audit(p))
}

// auditRow is one event as people read it: what changed, before and after.
func auditRow(e console.AuditEvent) views.AuditRow {
	row := views.AuditRow{Seq: e.Seq, At: e.At, Actor: e.Actor, Role: string(e.Role), Via: e.Via, Action: e.Action, Object: e.Object,
		ObjectID: e.ObjectID, TenantID: e.TenantID, Reason: e.Reason, IP: e.IP, RequestID: e.RequestID}
	row.URL = eventURL(e)
	if len(e.Changes) > 0 {
		row.Changes = diffRows(e.Changes)
	} else {
		row.Changes = fieldChanges(e.Before, e.After)
	}
	return row
}

// fieldChanges compares two JSON objects field by field. What is not an object
// is compared as a whole.
func fieldChanges(before, after json.RawMessage) []ui.DiffRow {
	b, a := auditFields(before), auditFields(after)
	var names []string
	for k := range b {
		names = append(names, k)
	}
	for k := range a {
		names = append(names, k)
	}
	slices.Sort(names)
	var rows []ui.DiffRow
	for _, name := range slices.Compact(names) {
		row := ui.DiffRow{Path: name, Kind: policy.ChangeChanged, Before: b[name], After: a[name]}
		if row.Before == row.After {
			continue
		}
		if row.Before == "" {
			row.Kind = policy.ChangeAdded
		} else if row.After == "" {
			row.Kind = policy.ChangeRemoved
		}
		rows = append(rows, row)
	}
	return rows
}

func auditFields(raw json.RawMessage) map[string]string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return map[string]string{"value": clip(string(raw))}
	}
	out := map[string]string{}
	for k, v := range fields {
		var text string
		if err := json.Unmarshal(v, &text); err != nil {
			text = string(v)
		}
		if text != "" && text != "null" {
			out[k] = clip(fmt.Sprint(text))
		}
	}
	return out
}
