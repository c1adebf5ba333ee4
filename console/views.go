package console

import "time"

// The types below are what the audit trail says of an object: no secret, no
// digest, no password hash.

type tenantView struct {
	Name       string `json:"name"`
	ExternalID string `json:"external_id,omitempty"`
	Plan       string `json:"plan"`
	TimeZone   string `json:"time_zone"`
	State      string `json:"state"`

	QuotaAnchor string   `json:"quota_anchor,omitempty"`
	Contacts    []string `json:"contacts,omitempty"`
}

func viewTenant(t Tenant) tenantView {
	return tenantView{t.Name, t.ExternalID, t.Plan, t.TimeZone, string(t.State), t.QuotaAnchor, t.Contacts}
}

type credentialView struct {
	Name        string     `json:"name"`
	Environment string     `json:"environment"`
	Scopes      []string   `json:"scopes,omitempty"`
	Contact     string     `json:"contact,omitempty"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	KID         string     `json:"kid"`
}

type keyView struct {
	Credential   string     `json:"credential"`
	State        string     `json:"state"`
	NotAfter     *time.Time `json:"not_after,omitempty"`
	RevokeReason string     `json:"revoke_reason,omitempty"`
}

func viewKey(k KeyVersion) keyView {
	return keyView{k.CredentialID, string(k.State), k.NotAfter, k.RevokeReason}
}

type rotationView struct {
	Credential string    `json:"credential"`
	OldKID     string    `json:"old_kid"`
	NewKID     string    `json:"new_kid"`
	State      string    `json:"state"`
	EndsAt     time.Time `json:"ends_at"`
}

func viewRotation(r Rotation) rotationView {
	return rotationView{r.CredentialID, r.OldKID, r.NewKID, string(r.State), r.EndsAt}
}

type brownoutView struct {
	KID     string    `json:"kid"`
	Network string    `json:"network,omitempty"`
	Until   time.Time `json:"until"`
}

type leakView struct {
	KID    string `json:"kid"`
	State  string `json:"state"`
	Source string `json:"source"`
	URL    string `json:"url,omitempty"`
	Done   string `json:"done,omitempty"`
}

func viewLeak(c LeakCase) leakView {
	return leakView{c.KID, string(c.State), c.Source, c.URL, c.Done}
}

type draftView struct {
	Name   string `json:"name"`
	Base   int64  `json:"base"`
	Digest string `json:"source_digest"`
	Tests  string `json:"tests_digest,omitempty"`
	Saves  int    `json:"saves,omitempty"` // that one event tells together
}

type versionView struct {
	Number     int64  `json:"number"`
	Digest     string `json:"digest"`
	Kind       string `json:"kind,omitempty"`
	RollbackOf int64  `json:"rollback_of,omitempty"`
	Note       string `json:"note,omitempty"`
}

// publicationView is what a publication did, and by what right.
type publicationView struct {
	versionView
	Routes     int      `json:"routes"` // that the document has
	Approvals  []string `json:"approvals,omitempty"`
	Confirmed  []string `json:"confirmed,omitempty"`
	Unasked    []string `json:"unconfirmed,omitempty"`
	BreakGlass string   `json:"break_glass,omitempty"`
	Missing    []string `json:"missing,omitempty"`
	Tests      int      `json:"tests,omitempty"`
	Failed     int      `json:"tests_failed,omitempty"`
	Canary     []string `json:"canary,omitempty"` // gateways that get it first
	Scheduled  bool     `json:"scheduled,omitempty"`
}

func viewPublication(v Version, pre prepared) publicationView {
	out := publicationView{
		versionView: versionView{v.Number, v.Digest, string(v.Kind), v.RollbackOf, v.Note},
		Routes:      len(pre.doc.Routes), BreakGlass: v.Proof.BreakGlass, Tests: len(pre.results), Failed: failing(pre.results),
		Scheduled: v.Proof.Scheduled != nil,
	}
	for _, a := range v.Proof.Approvals {
		out.Approvals = append(out.Approvals, a.Actor)
	}
	for _, c := range v.Proof.Confirmed {
		out.Confirmed = append(out.Confirmed, c.Code)
	}
	for _, c := range v.Proof.Unconfirmed {
		out.Unasked = append(out.Unasked, c.Code)
	}
	for _, n := range v.Proof.Missing {
		out.Missing = append(out.Missing, n.Text())
	}
	if pre.canary != nil {
		out.Canary = pre.canary.replicas
	}
	return out
}

type commentView struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

type approvalView struct {
	Digest string `json:"digest"`
	Base   int64  `json:"base"`
}

type rulesView struct {
	Rules []ApprovalRule `json:"rules"`
}

type scheduleView struct {
	At        time.Time `json:"at"`
	Note      string    `json:"note,omitempty"`
	Canary    bool      `json:"canary,omitempty"`
	Suspended string    `json:"suspended,omitempty"`
}

type reviewView struct {
	ClosedBy string `json:"closed_by,omitempty"`
	Note     string `json:"note,omitempty"`
}

type operatorView struct {
	Email    string `json:"email"`
	Name     string `json:"name"`
	Role     Role   `json:"role"`
	Disabled bool   `json:"disabled"`
}

func viewOperator(o Operator) operatorView {
	return operatorView{o.Email, o.Name, o.Role, o.DisabledAt != nil}
}

type tokenView struct {
	Operator  string     `json:"operator"`
	Name      string     `json:"name"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	Revoked   bool       `json:"revoked"`
}

type overrideView struct {
	Limit       string     `json:"limit"`
	Rate        string     `json:"rate,omitempty"`
	Burst       *int64     `json:"burst,omitempty"`
	Amount      *int64     `json:"amount,omitempty"`
	Max         *int64     `json:"max,omitempty"`
	FactorMilli int64      `json:"factor_milli,omitempty"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	InForce     string     `json:"in_force,omitempty"`   // what holds with it
	Instead     string     `json:"instead_of,omitempty"` // what held before
}

func viewOverride(o TenantOverride) overrideView {
	return overrideView{Limit: o.Limit, Rate: o.Rate, Burst: o.Burst, Amount: o.Amount, Max: o.Max, FactorMilli: o.FactorMilli, ExpiresAt: o.ExpiresAt}
}
