package envoy

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/apikey"
	"github.com/headgate/headgate/policy/feed"
)

// deployment is the name under which policy and tenants are signed.
const deployment = "bench"

// source is the policy: routes that draw from one limit, from four, and from one
// that is used up at once. They fail closed, so that a decision without Redis shows
// as a refusal.
const source = `apiVersion: headgate/v1
credentials: {headers: [{name: Authorization, scheme: Bearer}]}
plans:
  bench:
    limits: [{name: requests, per: tenant, rate: 1000000/second, burst: 1000000}]
shared:
  - {name: search, per: tenant, rate: 1000000/second, burst: 1000000}
routes:
  - {name: one, match: ["GET /one"], on_store_failure: {mode: closed}}
  - name: four
    match: ["GET /four"]
    limits:
      - {name: reports, per: tenant, rate: 1000000/second, burst: 1000000}
      - {name: burst, per: tenant, rate: 1000000/second, burst: 1000000}
    uses: [search]
    on_store_failure: {mode: closed}
  - name: refused
    match: ["GET /refused"]
    limits: [{name: hourly, per: tenant, rate: 1/hour, burst: 1}]
    on_store_failure: {mode: closed}
  - {name: rest, match: ["/"], on_store_failure: {mode: closed}}
`

// Publish writes the policy, the tenants and a key for each into Redis, as a console
// would, and the public key that they are signed with into a file. It returns the keys.
func Publish(ctx context.Context, client *redis.Client, keyFile string) ([]string, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("encode the key: %w", err)
	}
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		return nil, fmt.Errorf("write the key: %w", err)
	}
	publisher, err := feed.NewPublisher(feed.Config{Client: client, Deployment: deployment})
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	doc, report := policy.Parse([]byte(source))
	if doc == nil {
		return nil, fmt.Errorf("the policy has problems: %v", report.Problems)
	}
	signed := policy.SignPolicy(private, deployment, 1, "", doc.Canonical(), time.Now())
	if _, err := publisher.PublishPolicy(ctx, signed); err != nil {
		return nil, fmt.Errorf("publish the policy: %w", err)
	}
	keys, records, err := directory(private)
	if err != nil {
		return nil, err
	}
	return keys, publishRecords(ctx, publisher, records)
}

// directory is the tenants with a key for each.
func directory(private ed25519.PrivateKey) (keys []string, records []policy.SignedRecord, err error) {
	for i := range Subjects {
		secret, kid, err := apikey.Generate(apikey.Live, rand.Reader)
		if err != nil {
			return nil, nil, err
		}
		owner, err := policy.SignRecord(private, deployment, policy.RecordTenant, tenant(i), 1,
			policy.TenantRecord{ID: tenant(i), Plan: "bench", State: policy.TenantActive})
		if err != nil {
			return nil, nil, err
		}
		key, err := policy.SignRecord(private, deployment, policy.RecordKey, kid, 1, policy.KeyRecord{
			KID: kid, Tenant: tenant(i), Credential: "crd_" + tenant(i), Environment: apikey.Live,
			Digest: apikey.Digest(secret.Reveal()), State: policy.KeyActive,
		})
		if err != nil {
			return nil, nil, err
		}
		keys, records = append(keys, secret.Reveal()), append(records, owner, key)
	}
	return keys, records, nil
}

func publishRecords(ctx context.Context, publisher *feed.Publisher, records []policy.SignedRecord) error {
	if err := publisher.BeginDirectory(ctx); err != nil {
		return fmt.Errorf("begin the directory: %w", err)
	}
	if _, err := publisher.PutRecords(ctx, records); err != nil {
		return fmt.Errorf("write the tenants: %w", err)
	}
	if _, err := publisher.FinishDirectory(ctx, rand.Text()); err != nil {
		return fmt.Errorf("finish the directory: %w", err)
	}
	return nil
}
