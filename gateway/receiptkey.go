package gateway

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// receiptKeyFile holds the seed of the key that signs receipts, in hexadecimal. It is of
// this replica alone and signs nothing else; who has it can forge receipts of this
// replica, and no more.
const receiptKeyFile = "receipt.key"

// openReceiptKey reads the key, or makes one at the first start. A file that cannot be
// read is an error and not a new key: consoles keep each key that they were told.
func openReceiptKey(dir string) (ed25519.PrivateKey, error) {
	path := filepath.Join(dir, receiptKeyFile)
	raw, err := os.ReadFile(path) //nolint:gosec // the folder is the operator's
	if errors.Is(err, os.ErrNotExist) {
		seed := make([]byte, ed25519.SeedSize)
		_, _ = rand.Read(seed) // never fails
		return ed25519.NewKeyFromSeed(seed), writeFile(path, []byte(hex.EncodeToString(seed)+"\n"), 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of receipts: %w", err)
	}
	seed, err := hex.DecodeString(strings.TrimSpace(string(raw)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("read %s: it does not hold %d bytes in hexadecimal (delete it to have a new key made)", path, ed25519.SeedSize)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}
