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
}

func viewTenant(t Tenant) tenantView {
	return tenantView{t.Name, t.ExternalID, t.Plan, t.TimeZone, string(t.State)}
}

type credentialView struct {
	Name        string     `json:"name"`
	Environment string     `json:"environment"`
	Scopes      []string   `json:"scopes,omitempty"`
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

type draftView struct {
	Name   string `json:"name"`
	Base   int64  `json:"base"`
	Digest string `json:"source_digest"`
}

type versionView struct {
	Number     int64  `json:"number"`
	Digest     string `json:"digest"`
	Kind       string `json:"kind,omitempty"`
	RollbackOf int64  `json:"rollback_of,omitempty"`
	Note       string `json:"note,omitempty"`
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
