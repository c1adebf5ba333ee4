package leaks

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
)

// ParseKeys reads a partner's public keys as its key endpoint gives them:
// {"public_keys": [{"key_identifier", "key": PEM, …}]}. All are kept, also those
// that are not current: reports that are on their way are signed with them.
func ParseKeys(b []byte) (map[string]*ecdsa.PublicKey, error) {
	var file struct {
		PublicKeys []struct {
			ID  string `json:"key_identifier"`
			Key string `json:"key"`
		} `json:"public_keys"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf(`must be JSON as {"public_keys": [{"key_identifier": …, "key": PEM}]}: %w`, err)
	}
	out := map[string]*ecdsa.PublicKey{}
	for i, k := range file.PublicKeys {
		key, err := parseKey(k.Key)
		switch {
		case k.ID == "":
			return nil, fmt.Errorf("public_keys[%d].key_identifier is empty", i)
		case out[k.ID] != nil:
			return nil, fmt.Errorf("public_keys[%d].key_identifier %q is there twice", i, k.ID)
		case err != nil:
			return nil, fmt.Errorf("public_keys[%d].key %w", i, err)
		}
		out[k.ID] = key
	}
	if len(out) == 0 {
		return nil, errors.New("public_keys has none")
	}
	return out, nil
}

func parseKey(text string) (*ecdsa.PublicKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, errors.New("is no PEM block PUBLIC KEY")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	key, ok := parsed.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("is no ECDSA key on the curve P-256")
	}
	return key, nil
}
