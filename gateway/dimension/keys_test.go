package dimension

import (
	"crypto/elliptic"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

func TestUsers_KeysAreReadAgainAndGoodOnesKept(t *testing.T) {
	t.Parallel()
	older, newer := pair{jose.EdDSA, edKey(t), "old"}, pair{jose.EdDSA, edKey(t), "new"}
	u, path := usersOf(t, older.public())
	asked := func(p pair, at time.Time) error {
		_, _, err := u.Of(with(p.token(t, valid(nil))), false, at)
		return err
	}
	now := wall()
	if err := asked(older, now); err != nil || u.Problem() != nil {
		t.Fatal(err, u.Problem())
	}
	writeKeys(t, path, newer.public())
	if asked(older, now.Add(rereadAfter-1)) != nil || asked(newer, now.Add(rereadAfter-1)) == nil {
		t.Error("the file was read before it was due")
	}
	now = now.Add(rereadAfter)
	if asked(newer, now) != nil || asked(older, now) == nil {
		t.Error("a changed file was not read when due")
	}
	for name, spoil := range map[string]func() error{
		"broken":    func() error { return os.WriteFile(path, []byte(`{"keys":`), 0o600) },
		"empty":     func() error { return os.WriteFile(path, []byte(`{"keys":[]}`), 0o600) },
		"gone":      func() error { return os.Remove(path) },
		"too large": func() error { return os.WriteFile(path, make([]byte, maxKeyFile+1), 0o600) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if now = now.Add(rereadAfter); asked(newer, now) != nil || u.Problem() == nil {
			t.Errorf("%s: the good keys were dropped, or nothing tells it", name)
		}
		writeKeys(t, path, newer.public())
		if now = now.Add(rereadAfter); asked(newer, now) != nil || u.Problem() != nil {
			t.Errorf("after %s: %v", name, u.Problem())
		}
	}
	writeKeys(t, path, older.public())
	if now = now.Add(-time.Hour); asked(older, now) != nil {
		t.Error("a clock that was put back keeps the file from being read")
	}
}

func TestUsers_WithoutKeysNobodyIsRefusedAsForged(t *testing.T) {
	t.Parallel()
	p := pair{jose.EdDSA, edKey(t), "k"}
	u, path := usersOf(t, p.public())
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, present, err := u.Of(with(p.token(t, valid(nil))), false, wall()); present || !errors.Is(err, ErrKeys) || errors.Is(err, ErrUser) {
		t.Errorf("%t, %v; want ErrKeys", present, err)
	}
	if _, present, err := u.Of(http.Header{}, false, wall()); present || err != nil {
		t.Errorf("without a token: %t, %v", present, err)
	}
	writeKeys(t, path, p.public())
	if _, present, err := u.Of(with(p.token(t, valid(nil))), false, wall().Add(rereadAfter)); !present || err != nil {
		t.Errorf("once the file is there: %t, %v", present, err)
	}
}

func TestParseKeys_TakesOnlyWhatMayVerify(t *testing.T) {
	t.Parallel()
	good := pair{jose.ES256, ecKey(t, elliptic.P256()), "good"}
	set := func(keys ...jose.JSONWebKey) []byte {
		raw, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for name, key := range map[string]jose.JSONWebKey{
		"a short RSA key": {Key: rsaKey(t, 1024).Public()},
		"another curve":   {Key: ecKey(t, elliptic.P384()).Public()},
		"for encryption":  {Key: good.key.Public(), Use: "enc"},
	} {
		if keys, err := parseKeys(set(key)); err == nil || keys != nil {
			t.Errorf("%s: taken", name)
		}
		if keys, err := parseKeys(set(key, good.public())); err != nil || len(keys) != 1 || keys[0].KeyID != "good" {
			t.Errorf("%s beside a good one: %d keys, %v", name, len(keys), err)
		}
	}
	for name, key := range map[string]jose.JSONWebKey{"private": {Key: good.key}, "shared": {Key: []byte("0123456789abcdef0123456789abcdef")}} {
		if keys, err := parseKeys(set(good.public(), key)); err == nil || keys != nil || !strings.Contains(err.Error(), "keys[1]") {
			t.Errorf("%s: %d keys, %v", name, len(keys), err)
		}
	}
	unknown := strings.Replace(string(set(good.public())), `{"keys":[`, `{"keys":[{"kty":"ML-KEM"},{},null,`, 1)
	if keys, err := parseKeys([]byte(unknown)); err != nil || len(keys) != 1 {
		t.Errorf("beside unknown kinds: %d keys, %v", len(keys), err)
	}
	many := make([]jose.JSONWebKey, maxKeys+1)
	for i := range many {
		many[i] = good.public()
	}
	if _, err := parseKeys(set(many...)); err == nil {
		t.Error("too many keys are taken")
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"oct","k":"AA"},null,{"kty":"RSA","n":"AQ","e":"AQAB"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		keys, err := parseKeys(content)
		if (err == nil) != (len(keys) > 0) {
			t.Fatalf("%d keys, %v", len(keys), err)
		}
		for _, k := range keys {
			if !k.IsPublic() || !k.Valid() {
				t.Errorf("key %q may not verify", k.KeyID)
			}
		}
	})
}
