package e2e_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/policy"
)

// offer writes a version into Redis as somebody could who can write there.
func offer(t *testing.T, c *redis.Client, p policy.SignedPolicy) {
	t.Helper()
	pipe := c.TxPipeline()
	pipe.Set(t.Context(), "hg:{policy}:body:"+strconv.FormatInt(p.Version, 10), p.Body, 0)
	pipe.HSet(t.Context(), "hg:{policy}:head", map[string]any{
		"version": p.Version, "digest": p.Digest, "parent": p.Parent, "signer": p.Signer,
		"signature": base64.StdEncoding.EncodeToString(p.Signature), "issued": p.Issued.UnixMicro(),
	})
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestNACK_ReplicaKeepsWhatItHasAndSaysWhy(t *testing.T) {
	t.Parallel()
	d := StartDemo(t, "--gateways=2", exact)
	c := d.RedisClient()
	tenant := quiet(t, d, "free")
	var problems config.Problems
	key := config.PrivateKey(&problems, "key", filepath.Join(d.Dir, "secrets", "signing-key.pem"))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	head, err := c.HGetAll(t.Context(), "hg:{policy}:head").Result()
	if err != nil {
		t.Fatal(err)
	}
	body, err := c.Get(t.Context(), "hg:{policy}:body:"+head["version"]).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	_, stranger, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(key ed25519.PrivateKey, version int64, body []byte) policy.SignedPolicy {
		return policy.SignPolicy(key, "demo", version, head["digest"], body, time.Now())
	}
	badDigest := sign(key, 50, body)
	badDigest.Body = append([]byte(nil), append(body, ' ')...)
	for _, attempt := range []struct {
		code  string
		offer policy.SignedPolicy
	}{
		{policy.NACKBadDigest, badDigest},
		{policy.NACKBadSignature, sign(stranger, 51, body)},
		{policy.NACKTooNew, sign(key, 52, []byte(`{"apiVersion":"headgate/v9"}`))},
	} {
		offer(t, c, attempt.offer)
		for i := range d.Gateways {
			nacked(t, d, i, attempt.code)
			keeps(t, d, i, tenant.Key)
		}
	}
	keepsAfterRestartWithoutRedis(t, d, tenant.Key)
}

// nacked waits until the console shows gateway i with the NACK.
func nacked(t *testing.T, d *Demo, i int, code string) {
	t.Helper()
	eventually(t, 30*time.Second, fmt.Sprintf("gateway %d is shown as nacked for %s", i+1, code), func() error {
		a := d.API(http.MethodGet, "/api/v1/gateways", nil)
		if a.Status != http.StatusOK {
			return fmt.Errorf("status %d", a.Status)
		}
		list, _ := a.JSON(t)["items"].([]any)
		if i >= len(list) {
			return fmt.Errorf("%d gateways", len(list))
		}
		g, _ := list[i].(map[string]any)
		if got := str(g, "nack", "code"); got != code || str(g, "status") != "nacked" || num(g, "version") != 1 {
			return fmt.Errorf("nack %q, status %q, version %d", got, str(g, "status"), num(g, "version"))
		}
		return nil
	})
}

func keeps(t *testing.T, d *Demo, i int, key string) {
	t.Helper()
	a := d.Hit(i, key, "/v1/items")
	if a.Status != http.StatusOK || a.Header.Get("X-Headgate-Policy") != "v1" {
		t.Errorf("gateway %d: status %d by policy %q", i+1, a.Status, a.Header.Get("X-Headgate-Policy"))
	}
}

// keepsAfterRestartWithoutRedis holds that the copy on disk is enough.
func keepsAfterRestartWithoutRedis(t *testing.T, d *Demo, key string) {
	t.Helper()
	// The directory's copy on disk is at most a few seconds behind.
	eventually(t, 20*time.Second, "known keys are on disk", func() error {
		files, err := filepath.Glob(filepath.Join(d.Dir, "gateway-1", "*directory*"))
		if err == nil && len(files) == 0 {
			err = fmt.Errorf("no directory file in the state folder")
		}
		return err
	})
	d.Kill(d.Processes.Redis)
	d.Kill(d.Processes.Gateways[0])
	d.Restart(d.Processes.Gateways[0])
	d.WaitPort(d.Gateways[0])
	eventually(t, 30*time.Second, "the old version is in force again", func() error {
		a := d.Hit(0, key, "/v1/items")
		if a.Status != http.StatusOK || a.Header.Get("X-Headgate-Policy") != "v1" {
			return fmt.Errorf("status %d by policy %q: %s", a.Status, a.Header.Get("X-Headgate-Policy"), a.Body)
		}
		return nil
	})
}
