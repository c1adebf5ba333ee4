package views

import (
	"strings"
	"time"

	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views/ui"
)

// AuditProps is the list of audit events.
type AuditProps struct {
	Frame    ui.FrameProps
	Now      time.Time
	Form     *form.Form // actor, action, object, object_id, tenant
	Filtered bool
	Rows     []AuditRow
	Pager    ui.PagerProps
}

func (p AuditProps) filter(name, label, placeholder string) ui.FieldProps {
	return ui.FieldProps{Name: name, Label: label, Placeholder: placeholder, Value: p.Form.Raw(name), Error: p.Form.Error(name), Plain: true}
}

// AuditRow is one event.
type AuditRow struct {
	Seq                                     int64
	At                                      time.Time
	Actor, Role, Via                        string
	Action, Object, ObjectID, URL, TenantID string
	Reason, IP, RequestID                   string
	Changes                                 []ui.DiffRow
}

// auditShown is the number of changes of an event that are shown unfolded.
const auditShown = 4

// auditValue is a value as the list shows it: digests by the part that people
// compare, everything else whole.
func auditValue(v string) string {
	if strings.HasPrefix(v, "sha256:") {
		return ui.ShortDigest(v)
	}
	return v
}
