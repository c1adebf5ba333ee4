package api

import (
	"context"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/policy"
)

// Credential is a named way for a tenant to call the API.
type Credential struct {
	ID          string       `json:"id" example:"crd_abcdefghij234567"`
	TenantID    string       `json:"tenant_id"`
	Name        string       `json:"name"`
	Environment string       `json:"environment" enum:"live,test"`
	Scopes      []string     `json:"scopes"`
	Contact     string       `json:"contact,omitempty" doc:"Whom to ask about it"`
	ExpiresAt   *time.Time   `json:"expires_at,omitempty"`
	CreatedAt   time.Time    `json:"created_at"`
	KeyVersions []KeyVersion `json:"key_versions,omitempty"`
}

// KeyVersion is one secret of a credential, without the secret.
type KeyVersion struct {
	KID          string     `json:"kid" example:"0123456789AB"`
	CredentialID string     `json:"credential_id"`
	TenantID     string     `json:"tenant_id"`
	Environment  string     `json:"environment" enum:"live,test"`
	Masked       string     `json:"masked" doc:"What can be shown of the key" example:"hg_live_0123456789AB_…"`
	State        string     `json:"state" enum:"active,retiring,suspended,expired,revoked"`
	CreatedAt    time.Time  `json:"created_at"`
	ActivatedAt  time.Time  `json:"activated_at"`
	RetiringAt   *time.Time `json:"retiring_at,omitempty"`
	NotAfter     *time.Time `json:"not_after,omitempty" doc:"Refused from then on"`
	RevokedAt    *time.Time `json:"revoked_at,omitempty"`
	RevokeReason string     `json:"revoke_reason,omitempty"`
	Compromised  bool       `json:"compromised" doc:"It was found where it should not be"`
	Brownout     *Brownout  `json:"brownout,omitempty" doc:"The last one of its rotation"`
}

func keyVersionOf(k console.KeyVersion) KeyVersion {
	return KeyVersion{KID: k.KID, CredentialID: k.CredentialID, TenantID: k.TenantID, Environment: k.Environment,
		Masked: "hg_" + k.Environment + "_" + k.KID + "_…", State: string(k.State), CreatedAt: k.CreatedAt, ActivatedAt: k.ActivatedAt,
		RetiringAt: k.RetiringAt, NotAfter: k.NotAfter, RevokedAt: k.RevokedAt, RevokeReason: k.RevokeReason,
		Compromised: k.Leaked, Brownout: brownoutInForce(k.Brownout)}
}

func credentialOf(c console.Credential) Credential {
	out := Credential{ID: c.ID, TenantID: c.TenantID, Name: c.Name, Environment: c.Environment, Scopes: c.Scopes,
		Contact: c.Contact, ExpiresAt: c.ExpiresAt, CreatedAt: c.CreatedAt}
	if out.Scopes == nil {
		out.Scopes = []string{}
	}
	for _, k := range c.Versions {
		out.KeyVersions = append(out.KeyVersions, keyVersionOf(k))
	}
	return out
}

type (
	newCredential struct {
		Name        string     `json:"name" maxLength:"200"`
		Environment string     `json:"environment" enum:"live,test"`
		Scopes      []string   `json:"scopes,omitempty" maxItems:"64"`
		Contact     string     `json:"contact,omitempty" maxLength:"200" doc:"Whom to ask about it"`
		ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	}
	credentialCreateIn struct {
		TenantPath
		Repeatable
		Body newCredential
	}
	credentialCreated struct {
		Credential Credential `json:"credential"`
		KeyVersion KeyVersion `json:"key_version"`
		Key        string     `json:"key" doc:"The secret. It is in this answer and nowhere else"`
		Converged
	}
	// CredentialPath names a credential. Exported, as the framework reads only exported parts.
	CredentialPath struct {
		Credential string `path:"credential" maxLength:"64"`
	}
	// KeyPath names a key version. Exported, as the framework reads only exported parts.
	KeyPath struct {
		KID string `path:"kid" maxLength:"64"`
	}
	keyListIn struct {
		Paging
		Q           string `query:"q" maxLength:"200"`
		Tenant      string `query:"tenant" maxLength:"64"`
		Environment string `query:"environment" enum:"live,test"`
		State       string `query:"state" enum:"active,retiring,suspended,expired,revoked"`
		Show        string `query:"show" enum:"unused,never,expiring,retiring-used,compromised" doc:"unused: works and was not used for 90 days; never: works and was never used; expiring: within 30 days; retiring-used: retires and was used since; compromised: was found where it should not be. Each comes in an order of its own"`
	}
	keySourcesIn struct {
		KeyPath
		Since time.Time `query:"since" doc:"Seen since then; the last 7 days when left out"`
	}
	keyActIn struct {
		KeyPath
		Waiting
		Body Reason
	}
	keyAct struct {
		KeyVersion KeyVersion `json:"key_version"`
		Converged
	}
)

func (a *API) registerKeys() {
	register(a, op{id: "list-credentials", method: "GET", path: "/tenants/{tenant}/credentials", summary: "List a tenant's credentials", perm: console.PermView, errors: []int{404}}, a.listCredentials)
	register(a, op{id: "create-credential", method: "POST", path: "/tenants/{tenant}/credentials", summary: "Issue a credential with its first key", perm: console.PermManageKeys, status: 201, errors: []int{404, 409}}, a.createCredential)
	register(a, op{id: "get-credential", method: "GET", path: "/credentials/{credential}", summary: "Get a credential", perm: console.PermView, errors: []int{404}}, a.getCredential)
	register(a, op{id: "list-key-versions", method: "GET", path: "/key-versions", summary: "List key versions", perm: console.PermView}, a.listKeys)
	register(a, op{id: "get-key-version", method: "GET", path: "/key-versions/{kid}", summary: "Get a key version", perm: console.PermView, errors: []int{404}}, a.getKey)
	register(a, op{id: "list-key-sources", method: "GET", path: "/key-versions/{kid}/sources", summary: "List who uses a key version", perm: console.PermView, errors: []int{404}}, a.listKeySources)
	register(a, op{id: "revoke-key-version", method: "POST", path: "/key-versions/{kid}/revoke", summary: "Refuse a key for good", perm: console.PermManageKeys, errors: []int{404, 409}}, a.revokeKey)
	register(a, op{id: "suspend-key-version", method: "POST", path: "/key-versions/{kid}/suspend", summary: "Refuse a key for now", perm: console.PermManageKeys, errors: []int{404, 409}}, a.suspendKey)
	register(a, op{id: "resume-key-version", method: "POST", path: "/key-versions/{kid}/resume", summary: "Accept a suspended key again", perm: console.PermManageKeys, errors: []int{404, 409}}, a.resumeKey)
}

func (a *API) listCredentials(ctx context.Context, in *TenantPath) (*Body[List[Credential]], error) {
	if _, err := a.Tenants.Get(ctx, in.Tenant); err != nil {
		return nil, err
	}
	items, err := a.Keys.ListCredentials(ctx, in.Tenant)
	if err != nil {
		return nil, err
	}
	return &Body[List[Credential]]{listOf(items, "", credentialOf)}, nil
}

func (a *API) createCredential(ctx context.Context, in *credentialCreateIn) (*Body[credentialCreated], error) {
	request := struct {
		Tenant string
		Body   newCredential
	}{in.Tenant, in.Body}
	public := func(b *Body[credentialCreated]) any {
		return map[string]string{"credential": b.Body.Credential.ID, "kid": b.Body.KeyVersion.KID}
	}
	return once(ctx, a, "credentials.create", in.Repeatable, request, true, public, func() (*Body[credentialCreated], error) {
		issued, err := a.Keys.IssueCredential(ctx, actorOf(ctx), in.Tenant, console.NewCredential{Name: in.Body.Name,
			Environment: in.Body.Environment, Scopes: in.Body.Scopes, Contact: in.Body.Contact, ExpiresAt: in.Body.ExpiresAt})
		if err != nil {
			return nil, err
		}
		c := credentialOf(issued.Credential)
		c.KeyVersions = nil
		return &Body[credentialCreated]{credentialCreated{Credential: c, KeyVersion: keyVersionOf(issued.KeyVersion),
			Key: issued.Secret.Reveal(), Converged: converged(a.Fleet.WaitChange(ctx, issued.Change, issueWait), accepted)}}, nil
	})
}

func (a *API) getCredential(ctx context.Context, in *CredentialPath) (*Body[Credential], error) {
	c, err := a.Keys.GetCredential(ctx, in.Credential)
	if err != nil {
		return nil, err
	}
	return &Body[Credential]{credentialOf(c)}, nil
}

func (a *API) listKeys(ctx context.Context, in *keyListIn) (*Body[List[KeyVersion]], error) {
	items, next, err := a.Keys.ListKeys(ctx, console.KeyQuery{Q: in.Q, TenantID: in.Tenant, Environment: in.Environment,
		State: policy.KeyState(in.State), Show: console.KeyShow(in.Show), Page: in.page()})
	if err != nil {
		return nil, err
	}
	return &Body[List[KeyVersion]]{listOf(items, next, keyVersionOf)}, nil
}

func (a *API) getKey(ctx context.Context, in *KeyPath) (*Body[KeyVersion], error) {
	k, err := a.Keys.Get(ctx, in.KID)
	if err != nil {
		return nil, err
	}
	return &Body[KeyVersion]{keyVersionOf(k)}, nil
}

func (a *API) revokeKey(ctx context.Context, in *keyActIn) (*Body[keyAct], error) {
	return a.actOnKey(ctx, in, a.Keys.Revoke, refused)
}

func (a *API) suspendKey(ctx context.Context, in *keyActIn) (*Body[keyAct], error) {
	return a.actOnKey(ctx, in, a.Keys.Suspend, refused)
}

func (a *API) resumeKey(ctx context.Context, in *keyActIn) (*Body[keyAct], error) {
	return a.actOnKey(ctx, in, a.Keys.Resume, accepted)
}

func (a *API) actOnKey(ctx context.Context, in *keyActIn, act func(context.Context, console.Actor, string, string) (console.Change, error), s side) (*Body[keyAct], error) {
	if _, err := in.duration(); err != nil {
		return nil, err
	}
	change, err := act(ctx, actorOf(ctx), in.KID, in.Body.Reason)
	if err != nil {
		return nil, err
	}
	out := &Body[keyAct]{}
	if out.Body.Converged, err = a.converge(ctx, change, in.Waiting, s); err != nil {
		return nil, err
	}
	k, err := a.Keys.Get(ctx, in.KID)
	if err != nil {
		return nil, err
	}
	out.Body.KeyVersion = keyVersionOf(k)
	return out, nil
}
