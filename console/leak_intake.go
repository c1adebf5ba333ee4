package console

import (
	"context"
	"fmt"
	"io"

	"github.com/headgate/headgate/policy/apikey"
)

// MaxLeakReports is how many keys one report may hold.
const MaxLeakReports = 1000

// LeakReport is one key that somebody else found.
type LeakReport struct {
	Token LeakToken
	Kind  string // what the finder calls it
	URL   string // where it was
}

// LeakToken is a text that may be a key. It is in memory alone: it prints as
// nothing, whatever the verb, and is encoded as nothing.
type LeakToken struct{ text string }

// NewLeakToken takes over a text that may be a key.
func NewLeakToken(s string) LeakToken { return LeakToken{s} }

// Format implements fmt.Formatter.
func (LeakToken) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "…") }

// MarshalText implements encoding.TextMarshaler.
func (LeakToken) MarshalText() ([]byte, error) { return []byte("…"), nil }

// LeakVerdict is what became of a report.
type LeakVerdict struct {
	Ours bool   // it is a key of this installation, secret and all
	Done string // "revoked", "had ended before", "opened", "open already", "dismissed", "nothing"
	Case string // lek_…; "" for an operator's token, and when it is not ours
}

// Take takes over what somebody else found: source is the name of the intake.
// Each key that is ours is revoked or becomes a case, by LeakRules. Reporting it
// again changes nothing but the count of reports. Verdicts are in the order of
// the reports. On an error some may have been taken: report them all again.
func (s *Leaks) Take(ctx context.Context, source string, reports []LeakReport) ([]LeakVerdict, error) {
	if len(reports) > MaxLeakReports {
		return nil, invalid(FieldError{Field: "reports", Message: fmt.Sprintf("At most %d in one request.", MaxLeakReports)})
	}
	actor := SystemActor()
	actor.Name = "leak intake (" + source + ")"
	out := make([]LeakVerdict, len(reports))
	for i, r := range reports {
		parsed, err := apikey.Parse(r.Token.text)
		if err != nil {
			out[i].Done = "nothing"
			continue
		}
		if out[i], err = s.take(ctx, actor, source, r, parsed); err != nil {
			return nil, fmt.Errorf("take over report %d: %w", i, err)
		}
	}
	s.d.Nudge()
	return out, nil
}

func (s *Leaks) take(ctx context.Context, actor Actor, source string, r LeakReport, parsed apikey.Parsed) (v LeakVerdict, err error) {
	ids, err := s.ids()
	if err != nil {
		return LeakVerdict{}, err
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		f, err := find(ctx, tx, r.Token.text, parsed)
		switch {
		case err != nil:
			return err
		case !f.Ours:
			v = LeakVerdict{Done: "nothing"}
			return nil
		case f.Operator != "":
			v, err = s.endToken(ctx, tx, actor, f)
			return err
		}
		c := LeakCase{ID: ids.leak, KID: f.KID, TenantID: f.Version.TenantID, Source: source, Kind: cutRunes(cleanURL(r.Kind), 120), URL: cleanURL(r.URL)}
		v, err = s.note(ctx, tx, actor, c, f, ids.rotation)
		return err
	})
	return v, err
}

// endToken revokes an operator's token at once: there is nothing to wait for.
func (s *Leaks) endToken(ctx context.Context, tx Tx, actor Actor, f LeakFind) (LeakVerdict, error) {
	now := s.d.now()
	ok, err := tx.RevokeToken(ctx, f.KID, now)
	if err != nil || !ok {
		return LeakVerdict{Ours: true, Done: doneEnded}, err
	}
	t, o, err := tx.Token(ctx, f.KID)
	if err != nil {
		return LeakVerdict{}, err
	}
	return LeakVerdict{Ours: true, Done: doneRevoked}, s.d.record(ctx, tx, actor, now, event{
		action: "token.revoke", object: "token", objectID: f.KID, reason: "leak",
		before: tokenView{o.ID, t.Name, t.ExpiresAt, false}, after: tokenView{o.ID, t.Name, t.ExpiresAt, true},
	})
}

// note counts a report of a key that has a case, and makes one otherwise.
func (s *Leaks) note(ctx context.Context, tx Tx, actor Actor, c LeakCase, f LeakFind, rotation string) (LeakVerdict, error) {
	if _, err := tx.ShareTenant(ctx, f.Version.TenantID); err != nil { // before the credential, as everywhere
		return LeakVerdict{}, err
	}
	if _, err := tx.LockCredential(ctx, f.Version.CredentialID); err != nil {
		return LeakVerdict{}, err
	}
	known, err := tx.LockNewestLeak(ctx, c.KID)
	switch {
	case err != nil && !IsNotFound(err):
		return LeakVerdict{}, err
	case err == nil && s.knows(known, c):
		known.Reports++
		return LeakVerdict{Ours: true, Done: doneOf(known), Case: known.ID}, tx.UpdateLeak(ctx, known)
	case s.rules.Revoke || !f.Version.Live():
		c.Note = "reported by " + c.Source
		out, err := s.contain(ctx, tx, actor, c, rotation, false)
		return LeakVerdict{Ours: true, Done: out.Case.Done, Case: out.Case.ID}, err
	}
	return s.open(ctx, tx, actor, c)
}

// knows reports whether a report says nothing new: the case is open, the key is
// refused already, or somebody dismissed it for the same place.
func (s *Leaks) knows(known, reported LeakCase) bool {
	switch known.State {
	case LeakOpen:
		return !s.rules.Revoke
	case LeakDismissed:
		return !s.rules.Revoke && known.URL == reported.URL
	default:
		return true
	}
}

func doneOf(c LeakCase) string {
	switch c.State {
	case LeakOpen:
		return "open already"
	case LeakDismissed:
		return "dismissed"
	default:
		return doneEnded
	}
}

func (s *Leaks) open(ctx context.Context, tx Tx, actor Actor, c LeakCase) (LeakVerdict, error) {
	c.State, c.FoundAt, c.Reports = LeakOpen, s.d.now(), 1
	if err := tx.MarkKeyLeaked(ctx, c.KID); err != nil {
		return LeakVerdict{}, err
	}
	if err := tx.InsertLeak(ctx, c); err != nil {
		return LeakVerdict{}, fmt.Errorf("write leak case: %w", err)
	}
	return LeakVerdict{Ours: true, Done: "opened", Case: c.ID}, s.d.record(ctx, tx, actor, c.FoundAt, event{
		action: "leak.open", object: "leak", objectID: c.ID, tenantID: c.TenantID, after: viewLeak(c),
	})
}
