package policy

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// recordMagic begins every directory record; a new format gets a new word.
const recordMagic = "hgr1"

// maxRecordBytes bounds a record. Without overrides the largest is below 1 KiB.
const maxRecordBytes = 64 << 10

// ErrBadRecord means that bytes are not a directory record; it says nothing of
// the signature.
var ErrBadRecord = errors.New("not a directory record")

// Encode writes the record as it stands in Redis: one header line, a line
// feed, the body (docs/redis.md). DecodeRecord reads it back.
func (r SignedRecord) Encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s %s %d %s %s\n", recordMagic, r.Kind, r.ID, r.Seq, r.Signer,
		base64.RawURLEncoding.EncodeToString(r.Signature))
	b.Write(r.Body)
	return b.Bytes()
}

// DecodeRecord reads what Encode wrote. It checks the shape only: call
// VerifyRecord before believing anything. It fails with ErrBadRecord.
func DecodeRecord(b []byte) (SignedRecord, error) {
	if len(b) > maxRecordBytes {
		return SignedRecord{}, fmt.Errorf("decode record of %d bytes: %w", len(b), ErrBadRecord)
	}
	header, body, found := bytes.Cut(b, []byte{'\n'})
	parts := strings.Split(string(header), " ")
	if !found || len(parts) != 6 || parts[0] != recordMagic {
		return SignedRecord{}, fmt.Errorf("decode record header: %w", ErrBadRecord)
	}
	seq, err := strconv.ParseInt(parts[3], 10, 64)
	if err != nil || strconv.FormatInt(seq, 10) != parts[3] {
		return SignedRecord{}, fmt.Errorf("decode record sequence: %w", ErrBadRecord)
	}
	signature, err := base64.RawURLEncoding.Strict().DecodeString(parts[5])
	if err != nil {
		return SignedRecord{}, fmt.Errorf("decode record signature: %w", ErrBadRecord)
	}
	r := SignedRecord{
		Kind: RecordKind(parts[1]), ID: parts[2], Seq: seq,
		Body: bytes.Clone(body), Signer: parts[4], Signature: signature,
	}
	if err := r.check(); err != nil {
		return SignedRecord{}, fmt.Errorf("decode record: %w", err)
	}
	return r, nil
}

// check holds what a header line needs to be read back without doubt.
func (r SignedRecord) check() error {
	switch {
	case r.Kind != RecordKey && r.Kind != RecordTenant:
		return fmt.Errorf("kind %q: %w", r.Kind, ErrBadRecord)
	case !ValidID(r.ID):
		return fmt.Errorf("id %q: %w", r.ID, ErrBadRecord)
	case r.Seq < 0:
		return fmt.Errorf("sequence %d: %w", r.Seq, ErrBadRecord)
	case !ValidID(r.Signer):
		return fmt.Errorf("signer %q: %w", r.Signer, ErrBadRecord)
	}
	return nil
}

// ValidID reports whether s can be the id of a record: 1 to 64 letters, digits,
// _ and -, so that it can stand in a signed header line and in a Redis key.
func ValidID(s string) bool {
	if len(s) == 0 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}
