package config

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// MaxPublicKeys is how many keys gateways hold at once: the one in use, and the
// one before or after it while the key is being changed.
const MaxPublicKeys = 2

// PrivateKey reads an Ed25519 private key from a PEM file (PKCS #8).
func PrivateKey(p *Problems, flag, file string) ed25519.PrivateKey {
	if file == "" {
		p.Require(flag, file)
		return nil
	}
	der, err := readPEM(file, "PRIVATE KEY")
	if err != nil {
		p.Add(flag, "%v", err)
		return nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		p.Add(flag, "%s is not a PKCS #8 private key: %v", file, err)
		return nil
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		p.Add(flag, "%s holds a %T; an Ed25519 key is needed", file, parsed)
	}
	return key
}

// PublicKeys reads one or two Ed25519 public keys from PEM files (PKIX).
func PublicKeys(p *Problems, flag string, files []string) []ed25519.PublicKey {
	if len(files) == 0 {
		p.Require(flag, "")
		return nil
	}
	if len(files) > MaxPublicKeys {
		p.Add(flag, "is given %d times; at most %d keys are held at once", len(files), MaxPublicKeys)
		return nil
	}
	var keys []ed25519.PublicKey
	for _, file := range files {
		key, err := publicKey(file)
		if err != nil {
			p.Add(flag, "%v", err)
			continue
		}
		keys = append(keys, key)
	}
	return keys
}

func publicKey(file string) (ed25519.PublicKey, error) {
	der, err := readPEM(file, "PUBLIC KEY")
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, fmt.Errorf("%s is not a PKIX public key: %w", file, err)
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("%s holds a %T; an Ed25519 key is needed", file, parsed)
	}
	return key, nil
}

func readPEM(file, kind string) ([]byte, error) {
	b, err := readSmall(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("%s is not a PEM file", file)
	}
	if block.Type != kind {
		return nil, fmt.Errorf("%s holds a %q; a %q is needed", file, block.Type, kind)
	}
	return block.Bytes, nil
}

// WriteKeyPair writes a new key pair: the private key readable by its owner
// alone, the public key by everybody. Files that exist are never overwritten.
func WriteKeyPair(key ed25519.PrivateKey, privateFile, publicFile string) error {
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode private key: %w", err)
	}
	pub, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return errors.New("encode public key: not Ed25519")
	}
	public, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return fmt.Errorf("encode public key: %w", err)
	}
	if err := writeNew(privateFile, "PRIVATE KEY", private, 0o600); err != nil {
		return err
	}
	return writeNew(publicFile, "PUBLIC KEY", public, 0o644)
}

func writeNew(file, kind string, der []byte, mode os.FileMode) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	if err := pem.Encode(f, &pem.Block{Type: kind, Bytes: der}); err != nil {
		_ = f.Close()
		return fmt.Errorf("write key: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	return nil
}
