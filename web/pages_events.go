package web

import (
	"strconv"
	"strings"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// eventWords are the words for an audited act. An act that is not listed is
// shown by its own name.
func eventWords() map[string]string {
	return map[string]string{
		"tenant.create": "Tenant made", "tenant.update": "Tenant changed", "tenant.suspend": "Tenant suspended",
		"tenant.resume": "Tenant resumed", "tenant.delete": "Tenant deleted", "tenant.view": "Looked at as tenant",
		"credential.issue": "Key issued", "credential.create": "Key issued",
		"key.revoke": "Key revoked", "key.suspend": "Key suspended", "key.resume": "Key resumed", "key.expire": "Key expired",
		"rotation.start": "Rotation started", "rotation.extend": "Rotation extended", "rotation.end": "Rotation ended early",
		"rotation.cancel": "Rotation cancelled", "rotation.complete": "Rotation completed",
		"policy.publish": "Policy published", "policy.rollback": "Policy rolled back",
		"operator.create": "Operator made", "operator.set-role": "Operator's role changed", "operator.disable": "Operator disabled",
		"token.issue": "API token issued", "token.revoke": "API token revoked",
	}
}

func eventText(e console.AuditEvent) string {
	text, ok := eventWords()[e.Action]
	if !ok {
		text = e.Action
	}
	if strings.HasPrefix(e.Action, "policy.") && e.ObjectID != "" {
		return text + ": v" + strings.TrimPrefix(e.ObjectID, "v")
	}
	return text
}

// eventURL is the page of an event's object, "" when it has none.
func eventURL(e console.AuditEvent) string {
	switch kind, _, _ := strings.Cut(e.Action, "."); kind {
	case "policy":
		if n, err := strconv.ParseInt(strings.TrimPrefix(e.ObjectID, "v"), 10, 64); err == nil {
			return ui.VersionURL(n)
		}
		return ui.VersionsURL()
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
	}
	return ""
}

func eventRows(events []console.AuditEvent) []views.EventRow {
	rows := make([]views.EventRow, 0, len(events))
	for _, e := range events {
		rows = append(rows, views.EventRow{Seq: strconv.FormatInt(e.Seq, 10), At: e.At, Actor: e.Actor, Via: e.Via,
			Text: eventText(e), Object: e.ObjectID, Reason: e.Reason})
	}
	return rows
}
