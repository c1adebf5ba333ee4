package feed

import (
	"context"
	"time"

	"github.com/headgate/headgate/policy"
)

// saveWait is how long a new version may wait for the disk before it comes into
// force. A disk that hangs must not hold up an emergency publish.
const saveWait = 100 * time.Millisecond

// enforce saves a version, so that no restart leads back behind it, and then
// swaps it in.
func (w *Watcher) enforce(ctx context.Context, s *Snapshot, p policy.SignedPolicy) {
	s.Since = w.cfg.Now().UTC()
	w.save(ctx, copyOf(p, s.Since))
	w.mu.Lock()
	w.mark = mark{Version: s.Version, Digest: s.Digest}
	w.nack = nil
	w.current.Store(s)
	w.mu.Unlock()
	w.tried, w.signature = refusal{}, p.Signature
	w.cfg.Log.InfoContext(ctx, "policy in force", "version", s.Version, "digest", s.Digest)
	w.cfg.OnChange()
}

func (w *Watcher) save(ctx context.Context, c policyCopy) {
	done := make(chan struct{})
	w.saving.Add(1)
	go func() {
		defer w.saving.Done()
		defer close(done)
		w.saved(ctx, c, w.disk.save(c))
	}()
	timer := time.NewTimer(saveWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		w.cfg.Log.WarnContext(ctx, "disk is slow: policy comes into force before it is saved", "version", c.Version)
	}
}

// saved notes what became of a copy. One that failed is tried again while its
// version is in force; one that came late is told of.
func (w *Watcher) saved(ctx context.Context, c policyCopy, err error) {
	w.mu.Lock()
	w.diskFault, w.unsaved = "", nil
	if err != nil {
		w.diskFault, w.unsaved = err.Error(), &c
		w.cfg.Log.ErrorContext(ctx, "policy not saved to disk", "version", c.Version, "error", err)
	} else {
		w.onDisk = max(w.onDisk, c.Version)
	}
	cur := w.current.Load()
	late := err == nil && cur != nil && cur.Version == c.Version
	w.mu.Unlock()
	if late {
		w.cfg.OnChange()
	}
}

// saveAgain tries a copy again that could not be saved.
func (w *Watcher) saveAgain(ctx context.Context) {
	w.mu.Lock()
	c := w.unsaved
	w.unsaved = nil
	w.mu.Unlock()
	if cur := w.current.Load(); c != nil && cur != nil && cur.Version == c.Version {
		w.save(ctx, *c)
	}
}

// refuse keeps the reason why an offer is not used. It stays, with the time of
// its begin, until an offer is used or refused for another reason.
func (w *Watcher) refuse(ctx context.Context, version int64, code, detail string) {
	w.mu.Lock()
	same := w.nack != nil && w.nack.Version == version && w.nack.Code == code && w.nack.Detail == detail
	if !same {
		w.nack = &policy.NACK{Version: version, Code: code, Detail: detail, Since: w.cfg.Now().UTC()}
	}
	w.mu.Unlock()
	if same {
		return
	}
	w.cfg.Log.WarnContext(ctx, "policy refused", "version", version, "code", code, "detail", detail)
	w.cfg.OnChange()
}

// accepted notes that Redis offers just the version in force.
func (w *Watcher) accepted(ctx context.Context) {
	w.mu.Lock()
	had := w.nack
	w.nack = nil
	w.mu.Unlock()
	w.tried = refusal{}
	w.saveAgain(ctx)
	if had != nil {
		w.cfg.Log.InfoContext(ctx, "policy refusal is over", "version", had.Version, "code", had.Code)
		w.cfg.OnChange()
	}
}

// noteContact keeps whether Redis answers, and logs only when that changes.
func (w *Watcher) noteContact(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // stopping: says nothing of Redis
	}
	w.mu.Lock()
	was, ever := w.reachable, !w.polledAt.IsZero()
	w.reachable = err == nil
	if err != nil && w.puller != nil {
		w.puller.redisAway()
	}
	if err == nil {
		w.polledAt = w.cfg.Now().UTC()
	}
	w.mu.Unlock()
	switch {
	case err != nil && (was || !ever):
		w.cfg.Log.WarnContext(ctx, "policy cannot be polled", "error", err)
	case err == nil && !was && ever:
		w.cfg.Log.InfoContext(ctx, "policy can be polled again")
	}
}

// load takes the last good copy from disk.
func (w *Watcher) load() {
	found, err := w.disk.load()
	w.mark = found.mark
	if err != nil {
		w.diskFault = err.Error()
		w.cfg.Log.Error("copy of the policy on disk cannot be used", "error", err)
	}
	if found.copy == nil {
		return
	}
	p := found.copy.signed()
	code, detail := w.checkMarks(p)
	var s *Snapshot
	if code == "" {
		s, code, detail = w.examine(p)
	}
	if code != "" {
		w.diskFault = code + ": " + detail
		w.nack = &policy.NACK{Version: p.Version, Code: code, Detail: "on disk: " + detail, Since: w.cfg.Now().UTC()}
		w.cfg.Log.Error("copy of the policy on disk refused", "version", p.Version, "code", code, "detail", detail)
		return
	}
	s.Since, w.signature = found.copy.Since, p.Signature
	w.mark, w.onDisk = mark{Version: s.Version, Digest: s.Digest}, s.Version
	w.current.Store(s)
}
