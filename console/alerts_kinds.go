package console

import "slices"

// AlertKind is what a rule looks at.
type AlertKind string

// Kinds of rules. Those from AlertMarkRefused on are of tenants' own marks.
const (
	AlertQuotaUsed   AlertKind = "quota-used"
	AlertForecast    AlertKind = "quota-forecast"
	AlertRefused     AlertKind = "refused-change"
	AlertStalled     AlertKind = "replica-stalled"
	AlertNACK        AlertKind = "replica-nack"
	AlertDegraded    AlertKind = "replica-degraded"
	AlertKeyExpiring AlertKind = "key-expiring"
	AlertKeyRevoked  AlertKind = "revoked-key-used"
	AlertAuditBroken AlertKind = "audit-broken"
	AlertSpoolFull   AlertKind = "spool-full"
	AlertLedgerGap   AlertKind = "ledger-gap"
	AlertNoTTL       AlertKind = "state-without-ttl"

	AlertMarkRefused  AlertKind = "own-refused-share"
	AlertMarkRequests AlertKind = "own-requests-minute"
	AlertMarkQuota    AlertKind = "own-quota-used"
)

// AlertKindInfo is what a rule of a kind can say.
type AlertKindInfo struct {
	Kind      AlertKind
	Label     string
	Unit      string // "percent", "points", "seconds", "minutes", "days"; "" has no threshold
	Threshold string // what the threshold says
	Least     int64
	Most      int64
	Usual     int64
	Object    string // what an alert is about
}

// AlertKinds lists what operators' rules can look at.
func AlertKinds() []AlertKindInfo {
	return []AlertKindInfo{
		{Kind: AlertQuotaUsed, Label: "Quota used", Unit: "percent", Threshold: "Percent of the period's quota", Least: 1, Most: 1000, Usual: 80, Object: "tenant"},
		{Kind: AlertForecast, Label: "Quota forecast to run out", Unit: "days", Threshold: "Days ahead, before its period ends", Least: 1, Most: 366, Usual: 7, Object: "tenant"},
		{Kind: AlertRefused, Label: "Refused share has risen", Unit: "points", Threshold: "Percentage points above the last hour's share", Least: 1, Most: 100, Usual: 10, Object: "traffic"},
		{Kind: AlertStalled, Label: "Gateway is silent", Unit: "seconds", Threshold: "Seconds since its last heartbeat", Least: 6, Most: 86400, Usual: 15, Object: "gateway"},
		{Kind: AlertNACK, Label: "Gateway refuses the version", Object: "gateway"},
		{Kind: AlertDegraded, Label: "Gateway decides without Redis", Unit: "seconds", Threshold: "Seconds in a row", Least: 1, Most: 86400, Usual: 10, Object: "gateway"},
		{Kind: AlertKeyExpiring, Label: "Key expires", Unit: "days", Threshold: "Days ahead", Least: 1, Most: 30, Usual: 7, Object: "key"},
		{Kind: AlertKeyRevoked, Label: "Revoked key is used", Unit: "minutes", Threshold: "Minutes for which a use counts", Least: 5, Most: 1440, Usual: 120, Object: "key"},
		{Kind: AlertAuditBroken, Label: "Audit chain is broken", Object: "trail"},
		{Kind: AlertSpoolFull, Label: "Spool of a gateway is full", Unit: "percent", Threshold: "Percent of its bound", Least: 1, Most: 100, Usual: 80, Object: "gateway"},
		{Kind: AlertLedgerGap, Label: "Ledger lacks events", Object: "gateway"},
		{Kind: AlertNoTTL, Label: "State without a TTL in Redis", Object: "server"},
	}
}

// KindInfo finds what is known of a kind.
func (k AlertKind) KindInfo() (AlertKindInfo, bool) {
	all := AlertKinds()
	i := slices.IndexFunc(all, func(i AlertKindInfo) bool { return i.Kind == k })
	if i < 0 {
		return AlertKindInfo{Kind: k, Label: string(k), Unit: markUnit(k)}, false
	}
	return all[i], true
}

// markUnit is the unit of a tenant's own mark.
func markUnit(k AlertKind) string {
	switch k {
	case AlertMarkRefused, AlertMarkQuota:
		return "percent"
	case AlertMarkRequests:
		return "requests"
	}
	return ""
}
