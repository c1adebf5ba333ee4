package gateway

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/policy"
)

const (
	// tokenMark begins every lease token; another format gets another mark.
	tokenMark = "hgl1."
	// maxToken bounds a token, in bytes, so that it fits in a header field.
	maxToken = 6 << 10
)

var errBadToken = errors.New("lease: is no lease token of this deployment")

// leaseToken is what a request holds and what may be corrected of it, carried by
// whoever will see its end. It needs no memory on the replica that made it, so
// any replica takes it back.
type leaseToken struct {
	ID      string        `json:"i"` // names the settlement
	At      int64         `json:"a"` // store's clock, Unix µs
	Reserve int64         `json:"c,omitempty"`
	Rows    []limiter.Row `json:"r"`
	Leases  []tokenLease  `json:"l,omitempty"`
	Charges []tokenCharge `json:"b,omitempty"`
	Quotas  []tokenQuota  `json:"q,omitempty"`
	Noted   *tokenNoted   `json:"u,omitempty"` // what a settlement corrects in the ledger
}

// tokenNoted is what was noted of the request.
type tokenNoted struct {
	Second int64  `json:"s"`
	Tenant string `json:"t,omitempty"`
	KID    string `json:"k,omitempty"`
	Route  string `json:"r,omitempty"`
}

type tokenLease struct {
	Row  int    `json:"r"`
	Hash uint64 `json:"h"`
	Max  int64  `json:"m"`
	ID   string `json:"i"`
	Hold int64  `json:"d"`
}

type tokenCharge struct {
	Row     int      `json:"r"`
	Hash    uint64   `json:"h"`
	Numbers [3]int64 `json:"n"` // tokens, period, burst
	Leased  bool     `json:"s,omitempty"`
}

type tokenQuota struct {
	Row   int    `json:"r"`
	Hash  uint64 `json:"h"`
	Start int64  `json:"s"`
	End   int64  `json:"e,omitempty"`
}

// sealer makes and reads lease tokens. They are sealed under the decide token, so
// replicas that share it understand each other; without one, whoever may use the
// door could as well make them up.
type sealer struct{ aead cipher.AEAD }

func newSealer(decideToken string) (*sealer, error) {
	key := sha256.Sum256([]byte("headgate lease token\n" + decideToken))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, fmt.Errorf("seal lease tokens: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("seal lease tokens: %w", err)
	}
	return &sealer{aead}, nil
}

func (s *sealer) seal(t *leaseToken) (string, error) {
	plain, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("encode lease token: %w", err)
	}
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(plain)+s.aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	sealed := s.aead.Seal(nonce, nonce, plain, []byte(tokenMark))
	if text := tokenMark + base64.RawURLEncoding.EncodeToString(sealed); len(text) <= maxToken {
		return text, nil
	}
	return "", fmt.Errorf("lease token of %d bytes: at most %d", len(plain), maxToken)
}

// open reads what seal wrote; its error is errBadToken.
func (s *sealer) open(text string) (*leaseToken, error) {
	rest, marked := strings.CutPrefix(text, tokenMark)
	if !marked || len(text) > maxToken {
		return nil, errBadToken
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if err != nil || len(sealed) < s.aead.NonceSize() {
		return nil, errBadToken
	}
	plain, err := s.aead.Open(nil, sealed[:s.aead.NonceSize()], sealed[s.aead.NonceSize():], []byte(tokenMark))
	if err != nil {
		return nil, errBadToken
	}
	return readToken(plain)
}

// readToken reads the plain text of a token and checks that its parts belong
// together; what a store can count is for limiter to say.
func readToken(plain []byte) (*leaseToken, error) {
	var t leaseToken
	if err := json.Unmarshal(plain, &t); err != nil {
		return nil, errBadToken
	}
	known := func(row int) bool { return row >= 0 && row < len(t.Rows) }
	for _, l := range t.Leases {
		if !known(l.Row) {
			return nil, errBadToken
		}
	}
	for _, c := range t.Charges {
		if !known(c.Row) {
			return nil, errBadToken
		}
	}
	for _, q := range t.Quotas {
		if !known(q.Row) {
			return nil, errBadToken
		}
	}
	return &t, nil
}

// row is the index of a row in the token, which gets it if it is new.
func (t *leaseToken) row(row limiter.Row) int {
	if i := slices.Index(t.Rows, row); i >= 0 {
		return i
	}
	t.Rows = append(t.Rows, row)
	return len(t.Rows) - 1
}

// hold writes leases into the token.
func (t *leaseToken) hold(leases []limiter.Lease) {
	for _, l := range leases {
		t.Leases = append(t.Leases, tokenLease{t.row(l.Row), l.Hash, l.Max, l.ID, l.HoldMicros})
	}
}

// reserve writes what a settlement corrects into the token.
func (t *leaseToken) reserve(spent *limiter.Draw, cost int64) {
	t.Reserve = cost
	for i := range spent.Charges {
		if c := &spent.Charges[i]; !c.PerRequest {
			t.Charges = append(t.Charges, tokenCharge{t.row(c.Row), c.Hash, [3]int64{c.Numbers.Tokens, c.Numbers.Period, c.Numbers.Burst}, c.Leased})
		}
	}
	for i := range spent.Quotas {
		if q := &spent.Quotas[i]; !q.PerRequest {
			t.Quotas = append(t.Quotas, tokenQuota{t.row(q.Row), q.Hash, q.Start, q.End})
		}
	}
}

// leases are those that the token names.
func (t *leaseToken) leases() []limiter.Lease {
	out := make([]limiter.Lease, len(t.Leases))
	for i, l := range t.Leases {
		out[i] = limiter.Lease{Row: t.Rows[l.Row], Hash: l.Hash, Max: l.Max, ID: l.ID, HoldMicros: l.Hold}
	}
	return out
}

// spent is what a settlement corrects.
func (t *leaseToken) spent() *limiter.Draw {
	d := &limiter.Draw{}
	for _, c := range t.Charges {
		numbers := policy.Numbers{Tokens: c.Numbers[0], Period: c.Numbers[1], Burst: c.Numbers[2]}
		d.Charges = append(d.Charges, limiter.Charge{Row: t.Rows[c.Row], Hash: c.Hash, Numbers: numbers, Cost: t.Reserve, Leased: c.Leased})
	}
	for _, q := range t.Quotas {
		d.Quotas = append(d.Quotas, limiter.Quota{Row: t.Rows[q.Row], Hash: q.Hash, Start: q.Start, End: q.End, Cost: t.Reserve})
	}
	return d
}
