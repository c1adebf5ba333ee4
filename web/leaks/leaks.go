package leaks

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/problem"
)

// Headers of a report: which key signed it, and the signature over the body as
// it was sent.
const (
	KeyHeader       = "Github-Public-Key-Identifier"
	SignatureHeader = "Github-Public-Key-Signature"
)

const (
	// maxBody bounds a report, in bytes: a thousand matches fit.
	maxBody = 1 << 20
	// maxAtOnce bounds the signed reports that are worked on at once.
	maxAtOnce = 4
	// maxReading bounds the bodies that are read at once, and perAddress those of one
	// address: nobody has shown a signature yet, and whoever dawdles must not keep others out.
	maxReading, perAddress = 32, 8
	// readFor is how long a body may take.
	readFor = 10 * time.Second
	// maxSignature bounds a signature, in base64: 72 bytes are the longest.
	maxSignature = 128
	// maxToken bounds one match, in bytes. What is longer is no key.
	maxToken = 4096
)

// Taker takes over what was found; *console.Leaks is one.
type Taker interface {
	Take(ctx context.Context, source string, reports []console.LeakReport) ([]console.LeakVerdict, error)
}

// Config is what the door needs.
type Config struct {
	Leaks  Taker
	Keys   map[string]*ecdsa.PublicKey // by identifier; at least one
	Source string                      // name of the partner in leak cases, such as github
	Log    *slog.Logger
	Now    func() time.Time
}

type door struct {
	Config
	wrong   *wrong
	readers *readers
	slots   chan struct{}
}

// New returns the handler, to be mounted at one path, or an error that lists
// every problem of c.
func New(c Config) (http.Handler, error) {
	var bad []error
	if c.Leaks == nil || c.Log == nil || c.Now == nil || c.Source == "" {
		bad = append(bad, errors.New("leaks: Leaks, Source, Log and Now are all needed"))
	}
	if len(c.Keys) == 0 {
		bad = append(bad, errors.New("leaks: no public key: nothing could be believed"))
	}
	if err := errors.Join(bad...); err != nil {
		return nil, err
	}
	return &door{Config: c, wrong: newWrong(), readers: newReaders(), slots: make(chan struct{}, maxAtOnce)}, nil
}

// match is one secret that was found.
type match struct {
	Token  string `json:"token"`
	Type   string `json:"type"`
	URL    string `json:"url"`
	Source string `json:"source"`
}

// feedback is what a partner is told of one match. The token is told by its hash
// alone.
type feedback struct {
	TokenHash string `json:"token_hash"` // hex SHA-256
	TokenType string `json:"token_type"`
	Label     string `json:"label"` // true_positive or false_positive
}

// ServeHTTP takes one report.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		problem.Write(w, http.StatusMethodNotAllowed, "Reports are sent by POST.", 0)
		return
	}
	body, ok := d.read(w, r)
	if !ok {
		return
	}
	if !d.signed(r.Header, body) {
		d.refuse(w, r)
		return
	}
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	default:
		busy(w)
		return
	}
	d.take(w, r, body)
}

// read reads the body, and answers itself when it cannot.
func (d *door) read(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	leave, ok := d.readers.enter(addressOf(r.RemoteAddr))
	if !ok {
		busy(w)
		return nil, false
	}
	defer leave()
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(readFor)) // a connection that has none is one of a test
	defer func() { _ = conn.SetReadDeadline(time.Time{}) }()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		problem.Write(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("A report has at most %d bytes, and comes within %d seconds.", maxBody, int(readFor.Seconds())), 0)
		return nil, false
	}
	return body, true
}

// refuse answers a report without a good signature. Many of them from one address
// are told to wait; a good one from there is taken all the same, as it may be the
// address of a proxy, and all the world's.
func (d *door) refuse(w http.ResponseWriter, r *http.Request) {
	if wait := d.wrong.wait(r.RemoteAddr, d.Now()); wait > 0 {
		problem.Write(w, http.StatusTooManyRequests, "Too many reports with a bad signature came from this address.", wait)
		return
	}
	if d.wrong.note(r.RemoteAddr, d.Now()) {
		d.Log.WarnContext(r.Context(), "a leak report has no good signature", "address", r.RemoteAddr)
	}
	problem.Write(w, http.StatusUnauthorized, "The signature is not one of a known key over this body.", 0)
}

func busy(w http.ResponseWriter) {
	problem.Write(w, http.StatusServiceUnavailable, "Too many reports come at once.", time.Second)
}

// signed checks the signature (ECDSA over P-256 and SHA-256, in ASN.1) over the
// body as it was sent, before anything in it is read.
func (d *door) signed(h http.Header, body []byte) bool {
	ids, signatures := h.Values(KeyHeader), h.Values(SignatureHeader)
	if len(ids) != 1 || len(signatures) != 1 || len(signatures[0]) > maxSignature {
		return false
	}
	key := d.Keys[ids[0]]
	signature, err := base64.StdEncoding.DecodeString(signatures[0])
	if key == nil || err != nil {
		return false
	}
	sum := sha256.Sum256(body)
	return ecdsa.VerifyASN1(key, sum[:], signature)
}

func (d *door) take(w http.ResponseWriter, r *http.Request, body []byte) {
	matches, err := decode(body)
	if err != nil {
		problem.Write(w, http.StatusBadRequest, err.Error(), 0)
		return
	}
	reports := make([]console.LeakReport, len(matches))
	for i, m := range matches {
		if len(m.Token) > maxToken {
			m.Token = ""
		}
		reports[i] = console.LeakReport{Token: console.NewLeakToken(m.Token), Kind: m.Type, URL: m.URL}
	}
	verdicts, err := d.Leaks.Take(r.Context(), d.Source, reports)
	if err != nil {
		d.fail(w, r, err)
		return
	}
	out := make([]feedback, len(matches))
	for i, m := range matches {
		sum := sha256.Sum256([]byte(m.Token))
		out[i] = feedback{TokenHash: hex.EncodeToString(sum[:]), TokenType: m.Type, Label: "false_positive"}
		if verdicts[i].Ours {
			out[i].Label = "true_positive"
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the partner went away: it asks again
}

// decode reads a report: one JSON array of matches. Errors never repeat it.
func decode(body []byte) ([]match, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	var out []match
	if err := dec.Decode(&out); err != nil {
		return nil, errors.New("a report is a JSON array of {token, type, url, source}")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after the array")
	}
	if len(out) > console.MaxLeakReports {
		return nil, fmt.Errorf("a report has at most %d matches", console.MaxLeakReports)
	}
	return out, nil
}

func (d *door) fail(w http.ResponseWriter, r *http.Request, err error) {
	if console.CodeOf(err) == console.CodeUnavailable {
		problem.Write(w, http.StatusServiceUnavailable, "The report could not be taken now. Send it again.", console.RetryLater*time.Second)
		return
	}
	if r.Context().Err() == nil {
		d.Log.ErrorContext(r.Context(), "a leak report could not be taken", "error", err)
	}
	problem.Write(w, http.StatusInternalServerError, "Something went wrong on our side. Send it again.", 0)
}
