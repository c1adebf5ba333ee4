package console

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/receipt"
)

// compiledCache remembers a few versions compiled; versions never change.
type compiledCache struct {
	mu    sync.Mutex
	order []string
	of    map[string]*policy.Compiled // by digest
}

const compiledKept = 4

func (c *compiledCache) get(v Version) (*policy.Compiled, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if have := c.of[v.Digest]; have != nil {
		return have, nil
	}
	doc, err := v.Document()
	if err != nil {
		return nil, err
	}
	compiled, err := policy.Compile(doc)
	if err != nil {
		return nil, err
	}
	if c.of == nil {
		c.of = map[string]*policy.Compiled{}
	}
	if len(c.order) >= compiledKept {
		delete(c.of, c.order[0])
		c.order = c.order[1:]
	}
	c.of[v.Digest], c.order = compiled, append(c.order, v.Digest)
	return compiled, nil
}

// read looks at what is asked, before anybody is asked.
func (e *explaining) read() error {
	q, p := &e.q, problems(nil)
	for _, text := range []*string{&q.Tenant, &q.Key, &q.IP, &q.Account, &q.User, &q.Receipt, &q.Route, &q.Method, &q.Path} {
		if *text = strings.TrimSpace(*text); len(*text) > 1000 {
			p.add("q", "At most 1000 characters.")
		}
	}
	if q.Tenant+q.Key+q.IP+q.Account+q.User+q.Receipt == "" {
		p.add("q", "Give a tenant, a key, an address, an account, a user or a receipt.")
	}
	if len(q.Key) > 12 || strings.Contains(q.Key, "_") {
		e.secret, q.Key = q.Key, apikey.Mask(q.Key)
	}
	if q.IP != "" {
		var err error
		if e.ip, err = netip.ParseAddr(q.IP); err != nil {
			p.add("ip", "This is no address, such as 203.0.113.7 or 2001:db8::1.")
		}
		e.ip = e.ip.Unmap()
	}
	if q.Path != "" && !strings.HasPrefix(q.Path, "/") {
		p.add("path", "A path begins with /.")
	}
	if q.At != nil && q.At.After(e.out.At) {
		p.add("at", "This moment is yet to come.")
	}
	return p.err()
}

// gather reads whom and what it is about.
func (e *explaining) gather(ctx context.Context, tx Tx) error {
	head, err := tx.Head(ctx)
	if err != nil && !IsNotFound(err) {
		return err
	}
	if err == nil {
		e.out.Version.Head, e.out.Version.Published = head.Number, head.CreatedAt
		if e.compiled, err = e.s.policies.get(head); err != nil {
			return err
		}
		if e.out.Traffic.versionsSeen, err = tx.Versions(ctx, 0, 50); err != nil {
			return err
		}
	}
	tenant := e.q.Tenant
	if e.q.Receipt != "" {
		if err := e.readReceipt(ctx, tx); err != nil {
			return err
		}
		if r := e.out.Receipt; tenant == "" && r.Valid {
			tenant = r.Said.Tenant
		}
	}
	if e.q.Key != "" {
		if err := e.readKey(ctx, tx); err != nil {
			return err
		}
		if k := e.out.Key; k.Known && (e.secret == "" || k.Secret) {
			tenant = k.Version.TenantID
		}
	}
	if tenant != "" {
		t, err := e.tenant(ctx, tx, tenant)
		if err != nil {
			return err
		}
		e.out.Tenant = &t
		if e.limits, err = e.s.effective(ctx, tx, t, e.out.At); err != nil {
			return err
		}
	}
	return nil
}

// tenant finds a tenant by id, external id, or by a name that only one has.
func (e *explaining) tenant(ctx context.Context, tx Tx, ref string) (Tenant, error) {
	t, err := tx.FindTenant(ctx, ref)
	if err == nil || !IsNotFound(err) {
		return t, err
	}
	if t, err = tx.Tenant(ctx, ref); err == nil || !IsNotFound(err) { // a deleted one
		return t, err
	}
	found, err := tx.Tenants(ctx, TenantQuery{Q: ref}, Cursor{}, 10)
	if err != nil {
		return t, err
	}
	for _, f := range found {
		if strings.EqualFold(f.Name, ref) {
			return f, nil
		}
	}
	switch len(found) {
	case 0:
		return t, notFound("tenant")
	case 1:
		return found[0], nil
	}
	return t, invalid(FieldError{Field: "tenant", Message: "Several tenants are called so, such as " + found[0].Name + " and " + found[1].Name + ". Give the id."})
}

// readKey finds the version that a kid or a key means. What of it is secret is compared
// and forgotten.
func (e *explaining) readKey(ctx context.Context, tx Tx) error {
	k := &ExplainedKey{KID: e.q.Key, Masked: e.q.Key}
	e.out.Key = k
	if e.secret != "" {
		k.KID, k.Masked = "", apikey.Mask(e.secret)
		parsed, err := apikey.Parse(e.secret)
		if err != nil {
			k.Standing = "is not well-formed: its checksum does not fit, so it was not copied whole"
			if len(e.secret) <= 64 && !strings.HasPrefix(e.secret, "hg_") {
				k.Standing = "is no key of this product"
			}
			return nil
		}
		k.KID = parsed.KID
		if parsed.Environment == apikey.Ops {
			k.Standing = "is an operator's API token, which no gateway takes"
			return nil
		}
	}
	v, err := tx.Key(ctx, k.KID)
	if IsNotFound(err) {
		k.Standing = "is unknown: no key with this kid was ever issued here"
		return nil
	}
	if err != nil {
		return err
	}
	k.Known, k.Version = true, v
	k.Secret = e.secret != "" && apikey.Equal(v.Digest, e.secret)
	if e.secret == "" {
		k.Masked = "hg_" + v.Environment + "_" + v.KID + "_…"
	}
	k.Accepted, k.Standing = e.standing(v)
	if e.secret != "" && !k.Secret {
		k.Accepted, k.Standing = false, "has a kid of ours, and another secret: somebody changed or made it up"
	}
	return nil
}

// standing says whether gateways accept a version, in words.
func (e *explaining) standing(v KeyVersion) (bool, string) {
	now := e.out.At
	switch {
	case v.State == policy.KeyRevoked:
		return false, "was revoked " + whenSaid(v.RevokedAt) + reasonSaid(v.RevokeReason)
	case v.State == policy.KeyExpired, v.NotAfter != nil && !v.NotAfter.After(now):
		end := v.NotAfter
		if end == nil {
			end = v.EndedAt
		}
		return false, "expired " + whenSaid(end)
	case v.State == policy.KeySuspended:
		return false, "is suspended, and can be resumed"
	case v.State == policy.KeyRetiring:
		return true, "is accepted until " + whenSaid(v.NotAfter) + ": a newer one replaces it"
	}
	return true, "is accepted"
}

// ExplainedReceipt is what a receipt says and whether that is so.
type ExplainedReceipt struct {
	Valid   bool   // one of our replicas made it as it is
	Problem string // why not, in words
	Replica string // that made it
	Host    string
	Said    receipt.Receipt
	// Found is what the numbers come to under the version of then; Recomputed says that
	// the version is there to do that.
	Recomputed bool
	Found      receipt.Finding
	Age        string
}

// readReceipt checks a receipt and decides again what it says.
func (e *explaining) readReceipt(ctx context.Context, tx Tx) error {
	r := &ExplainedReceipt{}
	e.out.Receipt = r
	sealed, err := receipt.Parse(e.q.Receipt)
	if err != nil {
		r.Problem = "This is no receipt, or not all of one. A receipt begins with " + receipt.Prefix + " and stands in the body of a refusal."
		return nil
	}
	keys, err := tx.ReceiptKeys(ctx, sealed.Key.String())
	if err != nil {
		return err
	}
	keys = append(keys, receiptKeysOf(e.s.fleet.Health(ctx).Replicas)...)
	r.Problem = "No gateway of ours has made this receipt, or it was before this console first heard of it."
	for _, k := range keys {
		if k.ID != sealed.Key.String() {
			continue
		}
		if r.Said, err = sealed.Open(k.Public); err == nil {
			r.Valid, r.Problem, r.Replica, r.Host = true, "", k.Replica, k.Host
			break
		}
		r.Problem = "The receipt was changed since it was made, or not copied whole: its signature does not fit."
	}
	if !r.Valid {
		return nil
	}
	v, err := tx.Version(ctx, r.Said.Version)
	if err != nil {
		return ignoreNotFound(err)
	}
	compiled, err := e.s.policies.get(v)
	if err != nil {
		return err
	}
	if r.Found, err = receipt.Recompute(compiled, &r.Said); errors.Is(err, receipt.ErrVersion) {
		r.Problem = "Version " + versionName(r.Said.Version) + " has no such limit: the replica enforced something else."
		return nil
	}
	r.Recomputed = err == nil
	if e.q.Route == "" && e.q.Path == "" {
		e.q.Route = r.Found.Route
	}
	return err
}
