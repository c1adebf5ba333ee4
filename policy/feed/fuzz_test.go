package feed

import (
	"bytes"
	"strings"
	"testing"

	"github.com/headgate/headgate/policy"
)

func FuzzDecodeHead(f *testing.F) {
	f.Add("42", "sha256:ab", "", "0123456789abcdef", "AAAA", "1796036400123456", "e")
	f.Add("9223372036854775808", "", "", "", "%", "-", "")
	f.Fuzz(func(t *testing.T, version, digest, parent, signer, signature, issued, epoch string) {
		h, err := decodeHead([]string{version, digest, parent, signer, signature, issued, epoch})
		if err == nil && (h.offer.Version < 1 || h.offer.Version > maxVersion) {
			t.Fatalf("version %q was read as %d", version, h.offer.Version)
		}
	})
}

func FuzzDecodeView(f *testing.F) {
	f.Add("e1\x007\x001-0\x00key\x00k1")
	f.Add("\x00")
	f.Add("e1\x00-1\x00x\x00y\x00z")
	f.Fuzz(func(t *testing.T, reply string) {
		v, err := decodeView(strings.Split(reply, "\x00"))
		if err == nil && v.seq > maxVersion {
			t.Fatalf("seq %d", v.seq)
		}
	})
}

func FuzzDecodeDirectory(f *testing.F) {
	var b bytes.Buffer
	record := policy.SignedRecord{Kind: policy.RecordKey, ID: "k1", Seq: 1, Signer: "s", Body: []byte("{}")}
	if err := writeDirectory(&b, fileHead{Deployment: "d"}, []policy.SignedRecord{record}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte("hello\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		file, err := decodeDirectory(bytes.NewReader(raw), 0)
		if err != nil {
			return
		}
		// What was read can be written and read again.
		var again bytes.Buffer
		if err := writeDirectory(&again, file.head, file.records); err != nil {
			t.Fatal(err)
		}
		back, err := decodeDirectory(&again, 0)
		if err != nil || len(back.records) != len(file.records) {
			t.Fatalf("%d records came back as %d, %v", len(file.records), len(back.records), err)
		}
	})
}

func FuzzDecodeLine(f *testing.F) {
	raw, err := encodeLine(line{Drop: &dropLine{Kind: policy.RecordKey, ID: "k1", Seq: 3}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.TrimSuffix(raw, []byte("\n")))
	f.Add([]byte("00000000 {}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := decodeLine(raw)
		if err != nil {
			return
		}
		if _, err := encodeLine(l); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzStreamID(f *testing.F) {
	f.Add("1796036400123-0", "1-1")
	f.Add("", "-")
	f.Fuzz(func(t *testing.T, a, b string) {
		if streamID(a) && streamID(b) && streamBefore(a, b) && streamBefore(b, a) {
			t.Fatalf("%q and %q lie before each other", a, b)
		}
	})
}

func FuzzDecodeBatch(f *testing.F) {
	f.Add(`{"replica":"gw_a","seq":1,"rows":[{"s":1,"o":"admitted","n":1}]}`)
	f.Add(`{`)
	f.Fuzz(func(t *testing.T, raw string) {
		if _, err := decodeBatch(map[string]any{"batch": raw}); err != nil {
			return
		}
	})
}

func FuzzReadBeat(f *testing.F) {
	f.Add(int64(3), "1796036400123456")
	f.Add(int64(-1), "x")
	f.Fuzz(func(t *testing.T, live int64, at string) {
		if _, now, err := readBeat([]any{live, at}); err == nil && now.Location() == nil {
			t.Fatal("no time")
		}
	})
}
