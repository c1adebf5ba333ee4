package web

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// eventWords are the words for an audited act. An act that is not listed is
// shown by its own name.
func eventWords() map[string]string {
	return map[string]string{
		"tenant.create": "Tenant made", "tenant.update": "Tenant changed", "tenant.suspend": "Tenant suspended",
		"tenant.resume": "Tenant resumed", "tenant.delete": "Tenant deleted", "tenant.view-as": "Looked at as tenant",
		"credential.issue": "Key issued",
		"key.revoke":       "Key revoked", "key.suspend": "Key suspended", "key.resume": "Key resumed", "key.expire": "Key expired", "key.reactivate": "Key active again",
		"rotation.start": "Rotation started", "rotation.extend": "Rotation extended", "rotation.end": "Rotation ended early",
		"rotation.cancel": "Rotation cancelled", "rotation.complete": "Rotation completed",
		"rotation.brownout": "Old key refused for a moment", "rotation.brownout-stop": "Brown-out stopped", "key.used-revoked": "Revoked key used",
		"member.invite": "Member invited", "member.uninvite": "Invitation taken back", "member.join": "Member joined", "member.sign-in": "Member signed in",
		"member.link": "Sign-in link made", "member.set-role": "Member's role changed", "member.remove": "Member removed",
		"ask.create": "Asked for more", "ask.grant": "Ask granted", "ask.refuse": "Ask refused",
		"portal.rules": "Rules of self-service changed", "threshold.add": "Mark set", "threshold.remove": "Mark removed",
		"capacity.measure": "Capacity measured", "policy.publish": "Policy published", "policy.rollback": "Policy rolled back",
		"draft.create": "Draft made", "draft.save": "Draft saved", "draft.rebase": "Draft based on the version in force", "draft.delete": "Draft deleted",
		"draft.rename": "Draft renamed", "draft.merge": "Draft taken onto the version in force", "draft.comment": "Draft commented on",
		"draft.approve": "Draft approved", "draft.withdraw-approval": "Approval taken back",
		"draft.schedule": "Publication scheduled", "draft.unschedule": "Schedule taken back", "draft.schedule-suspended": "Scheduled publication suspended",
		"policy.adopt": "Policy adopted from Redis", "policy.promote": "Canary promoted", "policy.canary-stop": "Canary stopped",
		"review.close": "Break-glass review closed", "settings.approval-rules": "Approval rules changed",
		"policy.refused": "Publication refused",
		"override.set":   "Value of its own set", "override.extend": "Value of its own given another end", "override.end": "Value of its own ended", "override.expire": "Value of its own expired",
		"boost.set": "Boosted", "boost.extend": "Boost given another end", "boost.end": "Boost ended", "boost.expire": "Boost expired",
		"alert.add-rule": "Alert rule added", "alert.change-rule": "Alert rule changed", "alert.remove-rule": "Alert rule removed",
		"alert.add-channel": "Alert channel added", "alert.change-channel": "Alert channel changed", "alert.remove-channel": "Alert channel removed",
		"alert.rotate-secret": "Webhook's secret replaced", "alert.test": "Test message sent", "alert.silence": "Alerts silenced", "alert.unsilence": "Silence ended",
		"alert.redeliver": "Message tried anew",
		"usage.release":   "Held usage released", "usage.discard": "Held usage discarded", "usage.close": "Billing period closed", "usage.correct": "Usage corrected",
		"usage.rebuild": "Sums of usage rebuilt",
		"quota.grant":   "Units granted", "quota.reset": "Lifetime quota begun anew",
		"leak.open": "Leak reported", "leak.contain": "Leak contained", "leak.dismiss": "Leak dismissed",
		"bulk.create": "Bulk job made", "bulk.check": "Bulk job checked anew", "bulk.start": "Bulk job started", "bulk.cancel": "Bulk job cancelled", "bulk.step": "Step of a bulk job done",
		"operator.create": "Operator made", "operator.set-role": "Operator's role changed", "operator.set-password": "Operator's password changed",
		"operator.disable": "Operator disabled", "session.sign-in": "Signed in", "session.end": "Sessions ended",
		"token.issue": "API token issued", "token.revoke": "API token revoked",
	}
}

func eventText(e console.AuditEvent) string {
	if text, ok := eventWords()[e.Action]; ok {
		return text
	}
	return e.Action
}

// plainFields are the plain values of an object as the audit trail keeps it.
func plainFields(raw json.RawMessage) map[string]string {
	var all map[string]any
	if json.Unmarshal(raw, &all) != nil {
		return nil // null, or not an object: it has no fields to name
	}
	out := map[string]string{}
	for k, v := range all {
		switch v := v.(type) {
		case string:
			out[k] = v
		case float64:
			out[k] = strconv.FormatFloat(v, 'f', -1, 64)
		case bool:
			out[k] = strconv.FormatBool(v)
		}
	}
	return out
}

// eventObject names what an act was done to, in the words that people know it
// by. names are tenants' names by id.
func eventObject(e console.AuditEvent, names map[string]string) string {
	f := plainFields(e.After)
	if len(f) == 0 {
		f = plainFields(e.Before)
	}
	tenant := names[e.TenantID]
	of := func(what string) string {
		if tenant == "" {
			return what
		}
		return what + " of " + tenant
	}
	kind, _, _ := strings.Cut(e.Action, ".")
	switch kind {
	case "tenant":
		return firstOf(tenant, f["name"], e.ObjectID)
	case "credential":
		return of(firstOf(f["name"], e.ObjectID))
	case "key":
		return of(e.ObjectID)
	case "rotation":
		return of(firstOf(f["old_kid"], e.ObjectID))
	case "override", "boost":
		return of(firstOf(f["limit"], e.ObjectID))
	case "leak":
		return of(firstOf(f["kid"], e.ObjectID))
	case "policy", "review":
		return "v" + firstOf(f["number"], strings.TrimPrefix(e.ObjectID, "v"))
	case "operator", "token", "draft", "bulk":
		return firstOf(f["email"], f["name"], e.ObjectID)
	}
	return e.ObjectID
}

func firstOf(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

// eventDetail is what changed, in one line: "plan free → pro".
func eventDetail(e console.AuditEvent) string {
	if len(e.Changes) > 0 {
		detail := e.Changes[0].Text
		if n := len(e.Changes) - 1; n > 0 {
			detail += fmt.Sprintf(" (and %d more)", n)
		}
		return detail
	}
	before, after := plainFields(e.Before), plainFields(e.After)
	if len(before) == 0 || len(after) == 0 {
		return ""
	}
	var parts []string
	for k, v := range before {
		if _, kept := after[k]; !kept && v != "" {
			after[k] = "" // so that what was taken away is told too
		}
	}
	for k, v := range after {
		if before[k] != v {
			parts = append(parts, strings.ReplaceAll(k, "_", " ")+" "+shown(before[k])+" → "+shown(v))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// shown is a value of the audit trail in short: a time to the minute.
func shown(v string) string {
	if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
		return t.UTC().Format("2006-01-02 15:04 UTC")
	}
	return firstOf(clip(v), "none")
}

// eventURL is the page of an event's object, "" when it has none.
func eventURL(e console.AuditEvent) string {
	switch kind, _, _ := strings.Cut(e.Action, "."); kind {
	case "policy":
		if n, err := strconv.ParseInt(e.ObjectID, 10, 64); err == nil {
			return ui.VersionURL(n)
		}
	case "rotation":
		return ui.RotationURL(e.ObjectID, "")
	case "key":
		return ui.KeyURL(e.ObjectID, "")
	case "tenant":
		return ui.TenantURL(e.ObjectID, "")
	case "credential":
		if e.TenantID != "" {
			return ui.TenantURL(e.TenantID, "keys")
		}
	case "override", "boost":
		if e.TenantID != "" {
			return ui.TenantURL(e.TenantID, "overrides")
		}
	case "leak":
		return ui.LeaksURL()
	case "bulk":
		return ui.BulkJobURL(e.ObjectID)
	case "draft":
		if e.Action != "draft.delete" {
			return ui.DraftURL(e.ObjectID)
		}
	}
	return ""
}

// tenantsOf are the names of the tenants that events speak of.
func (s *Server) tenantsOf(ctx context.Context, events []console.AuditEvent) (map[string]string, error) {
	var ids []string
	for _, e := range events {
		if e.TenantID != "" && !slices.Contains(ids, e.TenantID) {
			ids = append(ids, e.TenantID)
		}
	}
	return s.Activity.Names(ctx, ids)
}

func (s *Server) eventRows(ctx context.Context, events []console.AuditEvent) ([]views.EventRow, error) {
	names, err := s.tenantsOf(ctx, events)
	if err != nil {
		return nil, err
	}
	rows := make([]views.EventRow, 0, len(events))
	for _, e := range events {
		rows = append(rows, views.EventRow{Seq: strconv.FormatInt(e.Seq, 10), At: e.At, Actor: e.Actor, Via: e.Via,
			Text: eventText(e), Object: eventObject(e, names), Detail: eventDetail(e), Reason: e.Reason})
	}
	return rows, nil
}

// changesShown and changesSought bound the changes of the last day: how many are
// shown, and how many pages of events are looked through for them.
const changesShown, changesSought = 6, 20

// lastEvents are the newest events of the last day that changed what gateways
// do or who may do what. Signing in, drafting and looking change nothing.
func (s *Server) lastEvents(ctx context.Context, now time.Time) ([]console.AuditEvent, error) {
	var found []console.AuditEvent
	page := console.Page{Limit: 50}
	for range changesSought {
		events, next, err := s.Audit.List(ctx, console.AuditQuery{Page: page})
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			if now.Sub(e.At) > 24*time.Hour {
				return found, nil
			}
			if strings.HasPrefix(e.Action, "session.") || e.Action == "member.sign-in" || strings.HasPrefix(e.Action, "draft.") || e.Action == "tenant.view-as" {
				continue
			}
			if found = append(found, e); len(found) == changesShown {
				return found, nil
			}
		}
		if page.After = next; next == "" {
			break
		}
	}
	return found, nil
}

func (s *Server) lastChanges(ctx context.Context, now time.Time) ([]views.ChangeRow, error) {
	events, err := s.lastEvents(ctx, now)
	if err != nil {
		return nil, err
	}
	names, err := s.tenantsOf(ctx, events)
	if err != nil {
		return nil, err
	}
	var rows []views.ChangeRow
	for _, e := range events {
		rows = append(rows, views.ChangeRow{At: e.At, Actor: e.Actor, Text: eventText(e), Object: eventObject(e, names), Detail: eventDetail(e),
			URL: eventURL(e), Reason: e.Reason})
	}
	return rows, nil
}
