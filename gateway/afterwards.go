package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate/limiter"
)

const (
	// settleWithin is how long after its decision a request may be settled: as
	// long as a store remembers that it has been.
	settleWithin = time.Hour
	// maxAfterBody bounds the body of /v1/release and /v1/settle, in bytes.
	maxAfterBody = 16 << 10
)

var (
	errNoReserve = errors.New("lease: its route reserves no cost (it has no settle_header)")
	errTooLate   = errors.New("lease: was decided more than an hour ago")
)

// seal makes the token of an admitted request, or "" when there is nothing to
// release or settle, or too much to be carried.
func (g *Gateway) seal(v *Verdict, now int64) string {
	if len(v.leases) == 0 && v.spent == nil {
		return ""
	}
	t := &leaseToken{ID: v.settleID, At: now}
	t.hold(v.leases)
	if v.spent != nil {
		t.reserve(v.spent, v.reserve)
		t.Noted = g.tokenNoted(v)
	}
	text, err := g.sealer.seal(t)
	if err != nil {
		g.cfg.Log.Warn("a request gets no lease token", "route", v.routeName(), "error", err.Error())
	}
	return text
}

// Release ends what the token holds. It changes nothing when that has ended
// already, so it may be repeated, on any replica. An error that wraps
// limiter.ErrStore says that the store cannot be asked; any other one is the
// caller's fault.
func (g *Gateway) Release(ctx context.Context, token string) error {
	t, err := g.sealer.open(token)
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	if len(t.Leases) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.Budget)
	defer cancel()
	return g.after("release", g.limiter.ReleaseLeases(ctx, t.leases()))
}

// Settle corrects the reserved cost of the token's request to what it really
// cost. It takes effect once, however often it is repeated within an hour, on any
// replica.
func (g *Gateway) Settle(ctx context.Context, token string, cost int64) error {
	t, err := g.sealer.open(token)
	switch {
	case err != nil:
	case cost < 0 || cost > maxCost:
		err = errBadSettlement
	case t.Reserve == 0:
		err = errNoReserve
	case time.Duration(g.limiter.StoreNow()-t.At)*time.Microsecond > settleWithin:
		err = errTooLate
	}
	if err != nil {
		return fmt.Errorf("settle: %w", err)
	}
	return g.settle(ctx, &charged{id: t.ID, ref: t.ref(), at: t.At, spent: t.spent(), reserve: t.Reserve, noted: t.Noted}, cost)
}

// charged is what a request was charged before its cost was known. With an id a
// correction takes effect once.
type charged struct {
	id      string
	ref     uint64 // in the decision log
	at      int64  // store's clock when it was
	spent   *limiter.Draw
	reserve int64
	noted   *tokenNoted // by a token; nil: whoever settles notes it
}

// ref is how the log names the token's request.
func (t *leaseToken) ref() uint64 {
	if len(t.Leases) > 0 {
		return refOf(t.Leases[0].ID)
	}
	return refOf(t.ID)
}

// settle corrects a charge to the real cost.
func (g *Gateway) settle(ctx context.Context, c *charged, cost int64) error {
	delta := cost - c.reserve
	if delta == 0 {
		g.metrics.settles.WithLabelValues("exact").Inc()
		g.recordCost(c.ref, c.spent, cost, max(g.limiter.StoreNow(), c.at+1)) // an estimate of the clock may be early
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.Budget)
	defer cancel()
	at, err := g.limiter.SettleAt(ctx, c.id, c.spent, delta)
	g.recordCost(c.ref, c.spent, cost, at)
	if at != 0 { // not by a call before
		g.noteSettlement(c.noted, delta)
	}
	err = g.after("settle", err)
	switch {
	case err != nil:
		g.metrics.settles.WithLabelValues("failed").Inc()
	case delta > 0:
		g.metrics.settles.WithLabelValues("charged").Inc()
	default:
		g.metrics.settles.WithLabelValues("refunded").Inc()
	}
	return err
}

// after sorts the errors of what comes after a decision: a token that names what
// no store can count was not made by us.
func (g *Gateway) after(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, limiter.ErrCharges):
		return fmt.Errorf("%s: %w", what, errBadToken)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// afterQuestion is the body of /v1/release and /v1/settle.
type afterQuestion struct {
	Lease string
	Cost  json.RawMessage
}

var errBadSettlement = errors.New("cost: is not a whole number from 0 to 2^48-1")

// serveRelease ends the leases of a request: 204, also when there was nothing to
// end.
func (g *Gateway) serveRelease(w http.ResponseWriter, r *http.Request) {
	q, err := readAfter(w, r, false)
	if err == nil {
		err = g.Release(r.Context(), q.Lease)
	}
	g.answerAfter(w, r, "release", err)
}

// serveSettle corrects the cost of a request: 204.
func (g *Gateway) serveSettle(w http.ResponseWriter, r *http.Request) {
	q, err := readAfter(w, r, true)
	var cost int64
	if err == nil {
		if cost, err = strconv.ParseInt(string(q.Cost), 10, 64); err != nil {
			err = errBadSettlement
		}
	}
	if err == nil {
		err = g.Settle(r.Context(), q.Lease, cost)
	}
	g.answerAfter(w, r, "settle", err)
}

func (g *Gateway) answerAfter(w http.ResponseWriter, r *http.Request, what string, err error) {
	id := requestID(r.Header, true)
	result := "done"
	switch {
	case err == nil:
		w.Header().Set(headerRequestID, id)
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, limiter.ErrStore):
		result = "failed"
		w.Header().Set("Retry-After", strconv.FormatInt(g.jitter(), 10))
		w.Header().Set("Cache-Control", "no-store")
		writeProblem(w, CodeReducedCapacity, id, "The limits cannot be reached at the moment. Repeat the call: it takes effect once.")
	case errors.Is(err, errBadSettlement):
		result = "refused"
		writeProblem(w, CodeBadCost, id, errBadSettlement.Error())
	default:
		result = "refused"
		writeProblem(w, CodeBadRequest, id, err.Error())
	}
	if what == "release" {
		g.metrics.releases.WithLabelValues(result).Inc()
	}
}

// readAfter reads the question strictly. A proxy that cannot write JSON may give
// the lease in the header that it got it in.
func readAfter(w http.ResponseWriter, r *http.Request, settles bool) (afterQuestion, error) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(refusedBodyTime))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAfterBody))
	if err != nil {
		w.Header().Set("Connection", "close")
		return afterQuestion{}, fmt.Errorf("read body: %w", err)
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	q := afterQuestion{Lease: r.Header.Get(headerLease)}
	to := map[string]any{"lease": &q.Lease}
	if settles {
		to["cost"] = &q.Cost
	}
	if len(body) > 0 || settles {
		dec := json.NewDecoder(bytes.NewReader(body))
		if err := readMembers(dec, func(name string) any { return to[name] }); err != nil {
			return afterQuestion{}, fmt.Errorf("read body: %w", err)
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return afterQuestion{}, errors.New("read body: more than one JSON value")
		}
	}
	if q.Lease == "" {
		return afterQuestion{}, errors.New("lease: is needed")
	}
	return q, nil
}
