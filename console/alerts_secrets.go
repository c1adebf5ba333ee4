package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
)

// Secrets of webhooks have to be read again to sign with them, so they are sealed
// with a key that is made of the signing key: who has the database alone has none.

const (
	secretPrefix = "whsec_" // as Standard Webhooks says
	secretBytes  = 32
)

// sealer is AES-256-GCM under a key of its own.
func (d Deps) sealer() (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, d.Signer.Seed(), nil, "headgate/webhook-secrets/"+d.Deployment, 32)
	if err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return cipher.NewGCM(block)
}

// newSecret makes a secret for a channel, sealed and as it is shown once.
func (s *Alerts) newSecret(channelID string) (sealed []byte, secret string, err error) {
	raw := make([]byte, secretBytes)
	if _, err := io.ReadFull(s.d.Rand, raw); err != nil {
		return nil, "", fmt.Errorf("read random secret: %w", err)
	}
	aead, err := s.d.sealer()
	if err != nil {
		return nil, "", err
	}
	nonce := make([]byte, aead.NonceSize())
	if _, err := io.ReadFull(s.d.Rand, nonce); err != nil {
		return nil, "", fmt.Errorf("read random nonce: %w", err)
	}
	return aead.Seal(nonce, nonce, raw, []byte(channelID)), secretPrefix + base64.StdEncoding.EncodeToString(raw), nil
}

// openSecret reads what newSecret sealed for the same channel.
func (s *Alerts) openSecret(channelID string, sealed []byte) (string, error) {
	aead, err := s.d.sealer()
	if err != nil {
		return "", err
	}
	if len(sealed) < aead.NonceSize() {
		return "", errors.New("sealed secret is too short")
	}
	raw, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], []byte(channelID))
	if err != nil {
		return "", fmt.Errorf("open sealed secret: %w", err)
	}
	return secretPrefix + base64.StdEncoding.EncodeToString(raw), nil
}
