package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"

	"github.com/headgate/headgate/internal/config"
)

// Names of the files that `headgate keys` writes.
const (
	privateKeyFile = "signing-key.pem"
	publicKeyFile  = "signing-key.pub.pem"
)

// keysCmd makes the Ed25519 pair with which the console signs and by which
// gateways check.
type keysCmd struct {
	Dir string `arg:"" help:"Folder for signing-key.pem (the console's alone) and signing-key.pub.pem (for the gateways); made if absent."`
}

// Run writes the pair. A pair that is there is never overwritten.
func (c *keysCmd) Run(_ context.Context) error {
	private, public, err := writeSigningKeys(c.Dir)
	if err != nil {
		return err
	}
	fmt.Printf("private: %s\npublic:  %s\n", private, public)
	return nil
}

// writeSigningKeys makes a pair in dir and returns the two paths.
func writeSigningKeys(dir string) (private, public string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", "", fmt.Errorf("make folder for keys: %w", err)
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("make signing key: %w", err)
	}
	private, public = filepath.Join(dir, privateKeyFile), filepath.Join(dir, publicKeyFile)
	return private, public, config.WriteKeyPair(key, private, public)
}
