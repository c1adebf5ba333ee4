package leaks

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/console"
)

// taker says of each second report that it is ours.
type taker struct {
	source  string
	reports []console.LeakReport
	err     error
	entered chan struct{}
	leave   chan struct{}
}

func (k *taker) Take(_ context.Context, source string, reports []console.LeakReport) ([]console.LeakVerdict, error) {
	if k.entered != nil {
		k.entered <- struct{}{}
		<-k.leave
	}
	k.source, k.reports = source, reports
	out := make([]console.LeakVerdict, len(reports))
	for i := range out {
		out[i].Ours = i%2 == 0
	}
	return out, k.err
}

// partner signs reports as a partner does.
type partner struct {
	door http.Handler
	key  *ecdsa.PrivateKey
	log  bytes.Buffer
	now  time.Time
}

func newPartner(t *testing.T, k Taker) *partner {
	t.Helper()
	p := &partner{now: time.Unix(1_800_000_000, 0)}
	var err error
	if p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	p.door, err = New(Config{
		Leaks: k, Keys: map[string]*ecdsa.PublicKey{"k1": &p.key.PublicKey}, Source: "github",
		Log: slog.New(slog.NewTextHandler(&p.log, nil)), Now: func() time.Time { return p.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *partner) sign(t *testing.T, body string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(body))
	b, err := ecdsa.SignASN1(rand.Reader, p.key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b)
}

func (p *partner) send(t *testing.T, method, body, id, signature string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/leaks/partner", strings.NewReader(body))
	r.RemoteAddr = "192.0.2.7:999"
	if id != "" {
		r.Header.Set(KeyHeader, id)
	}
	if signature != "" {
		r.Header.Set(SignatureHeader, signature)
	}
	rec := httptest.NewRecorder()
	p.door.ServeHTTP(rec, r)
	return rec
}

const twoMatches = `[{"token":"hg_live_one","type":"headgate_key","url":"https://example.com/a","source":"commit"}, {"token":"hg_live_two","type":"headgate_key","url":"","source":"content"}]`

func TestPartner_A16_SignedReportIsTakenAndAnsweredByHashAlone(t *testing.T) {
	t.Parallel()
	k := &taker{}
	p := newPartner(t, k)
	rec := p.send(t, "POST", twoMatches, "k1", p.sign(t, twoMatches))
	if rec.Code != 200 || rec.Header().Get("Cache-Control") != "no-store" || rec.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	var got []map[string]string
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("hg_live_one"))
	if len(got) != 2 || got[0]["token_hash"] != hex.EncodeToString(sum[:]) || got[0]["token_type"] != "headgate_key" ||
		got[0]["label"] != "true_positive" || got[1]["label"] != "false_positive" || len(got[0]) != 3 {
		t.Fatalf("%v", got)
	}
	if k.source != "github" || len(k.reports) != 2 || k.reports[0].URL != "https://example.com/a" || k.reports[0].Kind != "headgate_key" {
		t.Fatalf("taken %v of %s", k.reports, k.source)
	}
	if strings.Contains(rec.Body.String()+p.log.String(), "hg_live_one") {
		t.Error("the answer or the log repeats a secret")
	}
}

func TestPartner_NothingUnsignedIsReadOrTaken(t *testing.T) {
	t.Parallel()
	k := &taker{}
	p := newPartner(t, k)
	good := p.sign(t, twoMatches)
	other := newPartner(t, k).sign(t, twoMatches)
	for name, c := range map[string]struct{ body, id, signature string }{
		"no headers":         {twoMatches, "", ""},
		"no signature":       {twoMatches, "k1", ""},
		"no key":             {twoMatches, "", good},
		"unknown key":        {twoMatches, "k2", good},
		"another's key":      {twoMatches, "k1", other},
		"another body":       {twoMatches + " ", "k1", good},
		"empty body":         {"", "k1", good},
		"no base64":          {twoMatches, "k1", "***"},
		"no ASN.1":           {twoMatches, "k1", base64.StdEncoding.EncodeToString([]byte("x"))},
		"something after it": {twoMatches, "k1", strings.TrimRight(good, "=") + "AAAA"},
		"very long":          {twoMatches, "k1", strings.Repeat("A", 4096)},
	} {
		if rec := p.send(t, "POST", c.body, c.id, c.signature); rec.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
	}
	if k.reports != nil {
		t.Error("a report was taken")
	}
	if n := strings.Count(p.log.String(), "no good signature"); n != 1 {
		t.Errorf("%d lines in the log, want one a minute", n)
	}
}

func TestPartner_TwoSignaturesAreNone(t *testing.T) {
	t.Parallel()
	p := newPartner(t, &taker{})
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", strings.NewReader(twoMatches))
	r.Header.Set(KeyHeader, "k1")
	r.Header[SignatureHeader] = []string{p.sign(t, twoMatches), p.sign(t, twoMatches)}
	rec := httptest.NewRecorder()
	if p.door.ServeHTTP(rec, r); rec.Code != http.StatusUnauthorized {
		t.Errorf("%d", rec.Code)
	}
}

func TestPartner_BadSignaturesAreBoundedByAddress(t *testing.T) {
	t.Parallel()
	p := newPartner(t, &taker{})
	for range mostWrong {
		if rec := p.send(t, "POST", twoMatches, "k1", "AAAA"); rec.Code != http.StatusUnauthorized {
			t.Fatalf("%d", rec.Code)
		}
	}
	rec := p.send(t, "POST", twoMatches, "k1", "AAAA")
	if rec.Code != http.StatusTooManyRequests || rec.Header().Get("Retry-After") != "60" {
		t.Fatalf("%d, Retry-After %q", rec.Code, rec.Header().Get("Retry-After"))
	}
	// Strangers must not be able to keep a partner out that comes by the same proxy.
	if rec := p.send(t, "POST", twoMatches, "k1", p.sign(t, twoMatches)); rec.Code != http.StatusOK {
		t.Fatalf("a good one meanwhile: %d", rec.Code)
	}
	p.now = p.now.Add(wrongPer)
	if rec := p.send(t, "POST", twoMatches, "k1", "AAAA"); rec.Code != http.StatusUnauthorized {
		t.Fatalf("a minute later: %d", rec.Code)
	}
	many := newWrong()
	for i := range 2 * mostAddress {
		many.note(fmt.Sprintf("10.0.%d.%d:1", i/256, i%256), p.now)
	}
	if len(many.of) > mostAddress+1 {
		t.Errorf("%d addresses are remembered", len(many.of))
	}
}

func TestPartner_BadReportsAreToldAndNothingOfThemRepeated(t *testing.T) {
	t.Parallel()
	p := newPartner(t, &taker{})
	large := `[` + strings.Repeat(`{"token":"x"},`, console.MaxLeakReports) + `{"token":"x"}]`
	for name, c := range map[string]struct {
		method, body string
		status       int
	}{
		"not JSON":       {"POST", `hg_live_secret`, 400},
		"an object":      {"POST", `{"token":"hg_live_secret"}`, 400},
		"something more": {"POST", `[] []`, 400},
		"too many":       {"POST", large, 400},
		"too large":      {"POST", `["` + strings.Repeat("x", maxBody) + `"]`, 413},
		"by GET":         {"GET", "", 405},
	} {
		rec := p.send(t, c.method, c.body, "k1", p.sign(t, c.body))
		if rec.Code != c.status || rec.Header().Get("Content-Type") != "application/problem+json" || strings.Contains(rec.Body.String(), "secret") {
			t.Errorf("%s: %d %s", name, rec.Code, rec.Body)
		}
	}
	if rec := p.send(t, "POST", `[]`, "k1", p.sign(t, `[]`)); rec.Code != 200 || strings.TrimSpace(rec.Body.String()) != "[]" {
		t.Errorf("an empty report: %d %s", rec.Code, rec.Body)
	}
	long := `[{"token":"` + strings.Repeat("x", maxToken+1) + `"}]`
	k := &taker{}
	p = newPartner(t, k)
	if rec := p.send(t, "POST", long, "k1", p.sign(t, long)); rec.Code != 200 || k.reports[0].Token != console.NewLeakToken("") {
		t.Errorf("a very long token: %d", rec.Code)
	}
}

func TestPartner_FailuresAreToldApart(t *testing.T) {
	t.Parallel()
	for status, err := range map[int]error{
		503: &console.Error{Code: console.CodeUnavailable, Public: "away"}, 500: errors.New("a bug with " + "details"),
	} {
		p := newPartner(t, &taker{err: err})
		rec := p.send(t, "POST", twoMatches, "k1", p.sign(t, twoMatches))
		if rec.Code != status || strings.Contains(rec.Body.String(), "details") || status == 503 && rec.Header().Get("Retry-After") == "" {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	}
}

func TestPartner_TooManyAtOnceAreTurnedAway(t *testing.T) {
	t.Parallel()
	k := &taker{entered: make(chan struct{}), leave: make(chan struct{})}
	p := newPartner(t, k)
	signature := p.sign(t, `[]`)
	done := make(chan int, maxAtOnce)
	for range maxAtOnce {
		go func() { done <- p.send(t, "POST", `[]`, "k1", signature).Code }()
		<-k.entered
	}
	if rec := p.send(t, "POST", `[]`, "k1", signature); rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") != "1" {
		t.Errorf("%d", rec.Code)
	}
	close(k.leave)
	for range maxAtOnce {
		if code := <-done; code != 200 {
			t.Errorf("%d", code)
		}
	}
}

// slowBody says when it is being read, and comes when it is told to.
type slowBody struct{ read, come chan struct{} }

func (b slowBody) Read([]byte) (int, error) { b.read <- struct{}{}; <-b.come; return 0, io.EOF }

func TestPartner_WhoDawdlesKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	p := newPartner(t, &taker{})
	body := slowBody{make(chan struct{}), make(chan struct{})}
	slow := func(from string) {
		r := httptest.NewRequest("POST", "/leaks/partner", body)
		r.RemoteAddr = from
		p.door.ServeHTTP(httptest.NewRecorder(), r)
	}
	var running sync.WaitGroup
	for i := range perAddress {
		running.Go(func() { slow(fmt.Sprintf("[2001:db8::%d]:1", i)) })
		<-body.read
	}
	busy := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/leaks/partner", strings.NewReader("[]"))
	r.RemoteAddr = "[2001:db8::ffff]:1"
	if p.door.ServeHTTP(busy, r); busy.Code != http.StatusServiceUnavailable || busy.Header().Get("Retry-After") == "" {
		t.Errorf("one more of the same network: %d", busy.Code)
	}
	if rec := p.send(t, "POST", `[]`, "k1", p.sign(t, `[]`)); rec.Code != http.StatusOK {
		t.Errorf("somebody else: %d", rec.Code)
	}
	close(body.come)
	running.Wait()
}

func TestNew_ListsEveryProblem(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{}); err == nil || strings.Count(err.Error(), "leaks:") != 2 {
		t.Errorf("%v", err)
	}
}

func pemOf(t *testing.T, curve elliptic.Curve) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func keyFile(t *testing.T, keys ...string) []byte {
	t.Helper()
	type entry struct {
		ID      string `json:"key_identifier"`
		Key     string `json:"key"`
		Current bool   `json:"is_current"`
	}
	var list []entry
	for i := 0; i+1 < len(keys); i += 2 {
		list = append(list, entry{keys[i], keys[i+1], i == 0})
	}
	b, err := json.Marshal(map[string]any{"public_keys": list})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParseKeys_ReadsAllAndNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := pemOf(t, elliptic.P256())
	if keys, err := ParseKeys(keyFile(t, "a", good, "b", pemOf(t, elliptic.P256()))); err != nil || len(keys) != 2 {
		t.Fatalf("%v, %v", keys, err)
	}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"not JSON":      {[]byte("x"), "public_keys"},
		"none":          {[]byte(`{"public_keys":[]}`), "has none"},
		"no id":         {keyFile(t, "", good), "key_identifier is empty"},
		"twice":         {keyFile(t, "a", good, "a", good), "there twice"},
		"no PEM":        {keyFile(t, "a", "x"), "public_keys[0].key"},
		"no DER":        {keyFile(t, "a", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"), "cannot be read"},
		"another curve": {keyFile(t, "a", good, "b", pemOf(t, elliptic.P384())), "public_keys[1].key is no ECDSA key on the curve P-256"},
	} {
		if _, err := ParseKeys(c.file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(twoMatches))
	f.Add([]byte(`[{"token":null}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		matches, err := decode(body)
		if err != nil && len(body) > 20 && strings.Contains(err.Error(), string(body)) {
			t.Fatal("the error repeats the report")
		}
		if err == nil && len(matches) > console.MaxLeakReports {
			t.Fatalf("%d matches", len(matches))
		}
	})
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(`{"public_keys":[{"key_identifier":"a","key":"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, err := ParseKeys(b)
		if err == nil && len(keys) == 0 {
			t.Fatal("no keys and no error")
		}
	})
}

func TestPartner_BodyThatBreaksOffIsNotTaken(t *testing.T) {
	t.Parallel()
	k := &taker{}
	p := newPartner(t, k)
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/", io.MultiReader(strings.NewReader("["), brokenBody{}))
	r.Header.Set(KeyHeader, "k1")
	r.Header.Set(SignatureHeader, p.sign(t, "["))
	rec := httptest.NewRecorder()
	if p.door.ServeHTTP(rec, r); rec.Code < 400 || k.reports != nil {
		t.Errorf("%d, %v", rec.Code, k.reports)
	}
}

type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
