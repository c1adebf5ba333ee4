package policy

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func signedKey(t testing.TB) SignedRecord {
	t.Helper()
	_, priv := keyPair('a')
	notAfter := time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)
	r, err := SignRecord(priv, "prod", RecordKey, "0123456789AB", 3, KeyRecord{
		KID: "0123456789AB", Tenant: "ten_0123456789abcdef", Credential: "crd_0123456789abcdef", Environment: "live",
		Digest: "sha256:00", State: KeyActive, NotAfter: &notAfter, Scopes: []string{"read"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The bytes are a contract with other programs: docs/redis.md.
func TestRecord_StandsInRedisAsDocumented(t *testing.T) {
	t.Parallel()
	want := "hgr1 key 0123456789AB 3 " + SignerID(publicKeyOf('a')) + " "
	const body = `{"kid":"0123456789AB","tenant":"ten_0123456789abcdef","credential":"crd_0123456789abcdef","environment":"live",` +
		`"digest":"sha256:00","state":"active","not_after":"2026-12-31T00:00:00Z","scopes":["read"]}`
	got := string(signedKey(t).Encode())
	header, rest, _ := strings.Cut(got, "\n")
	parts := strings.Split(header, " ")
	if !strings.HasPrefix(header, want) || len(parts) != 6 || len(parts[5]) != 86 {
		t.Errorf("header %q, want like %q and an unpadded signature of 86 characters", header, want)
	}
	if rest != body {
		t.Errorf("body is %q, want %q", rest, body)
	}
}

func publicKeyOf(seed byte) ed25519.PublicKey {
	pub, _ := keyPair(seed)
	return pub
}

func TestDecodeRecord_ReadsBackWhatEncodeWrote(t *testing.T) {
	t.Parallel()
	want := signedKey(t)
	got, err := DecodeRecord(want.Encode())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("DecodeRecord = %+v, %v, want %+v", got, err, want)
	}
	if err := VerifyRecord([]ed25519.PublicKey{publicKeyOf('a')}, "prod", got); err != nil {
		t.Error(err)
	}
	var key KeyRecord
	if err := json.Unmarshal(got.Body, &key); err != nil || key.State != KeyActive || key.NotAfter == nil {
		t.Errorf("body %s: %+v, %v", got.Body, key, err)
	}
}

func TestDecodeRecord_KeepsNoneOfTheCallersBytes(t *testing.T) {
	t.Parallel()
	raw := signedKey(t).Encode()
	got, err := DecodeRecord(raw)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Clone(got.Body)
	clear(raw)
	if !bytes.Equal(got.Body, want) {
		t.Error("the body changed with the caller's buffer")
	}
}

func TestDecodeRecord_RefusesEveryOtherShape(t *testing.T) {
	t.Parallel()
	good := string(signedKey(t).Encode())
	header, body, _ := strings.Cut(good, "\n")
	parts := strings.Split(header, " ")
	with := func(i int, s string) string {
		p := append([]string(nil), parts...)
		p[i] = s
		return strings.Join(p, " ") + "\n" + body
	}
	for name, raw := range map[string]string{
		"nothing":                     "",
		"no body":                     header,
		"other magic":                 with(0, "hgr2"),
		"unknown kind":                with(1, "plan"),
		"no kind":                     with(1, ""),
		"empty id":                    with(2, ""),
		"id with a colon":             with(2, "a:b"),
		"id too long":                 with(2, strings.Repeat("a", 65)),
		"sequence not a number":       with(3, "x"),
		"sequence with a plus":        with(3, "+3"),
		"sequence with zeros":         with(3, "03"),
		"negative sequence":           with(3, "-3"),
		"sequence beyond 64 bit":      with(3, "9223372036854775808"),
		"no signer":                   with(4, ""),
		"signature padded":            with(5, parts[5]+"=="),
		"signature in other alphabet": with(5, "+/"+parts[5][2:]),
		"two spaces":                  strings.Replace(good, " ", "  ", 1),
		"a part more":                 header + " x\n" + body,
		"too large":                   good + strings.Repeat(" ", maxRecordBytes),
	} {
		if r, err := DecodeRecord([]byte(raw)); !errors.Is(err, ErrBadRecord) {
			t.Errorf("%s: %+v, %v, want ErrBadRecord", name, r, err)
		}
	}
}

func TestSignRecord_RefusesWhatCouldNotBeReadBack(t *testing.T) {
	t.Parallel()
	_, priv := keyPair('a')
	for name, c := range map[string]struct {
		kind RecordKind
		id   string
		seq  int64
		body any
	}{
		"kind":                  {"plan", "x", 1, nil},
		"id with a space":       {RecordKey, "a b", 1, nil},
		"id with a line feed":   {RecordKey, "a\nb", 1, nil},
		"negative sequence":     {RecordKey, "a", -1, nil},
		"body that is not JSON": {RecordKey, "a", 1, func() {}},
	} {
		if r, err := SignRecord(priv, "prod", c.kind, c.id, c.seq, c.body); err == nil {
			t.Errorf("%s: signed %+v", name, r)
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add(signedKey(f).Encode())
	f.Add([]byte("hgr1 tenant ten_a 0 s AA\n{}"))
	f.Add([]byte("hgr1 key a 1 s A\n"))
	f.Add([]byte("hgr1 key a 1 s \n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := DecodeRecord(raw)
		if err != nil {
			return
		}
		if again := r.Encode(); !bytes.Equal(again, raw) {
			t.Errorf("%q reads as %+v and is written as %q", raw, r, again)
		}
	})
}
