package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headgate/headgate/usage"
)

const (
	// keyRowsPerTx bounds the rows of batches that one transaction adds up, so that no
	// statement comes near the time that it may take.
	keyRowsPerTx = usage.MaxKeyRows
	// keySourcesKnown is how many sources of one version are told apart; the others
	// are its rest.
	keySourcesKnown = 200
	// alarmEvery is how often it is told that a revoked key is still presented.
	alarmEvery = time.Hour
	// alarmsPerTx bounds the audit events of one transaction: the others come with the
	// next batch.
	alarmsPerTx = 100
)

// errMovedOn says that another console has counted the batches meanwhile.
var errMovedOn = errors.New("another console has counted these batches")

// Collect takes over everything that the feed has. It does nothing where the feed
// carries no key uses.
func (s *KeyUses) Collect(ctx context.Context) error {
	feed, carries := s.d.Feed.(KeyUseFeed)
	if !carries {
		return nil
	}
	for {
		var place string
		err := s.d.Store.Read(ctx, func(tx Tx) (err error) {
			place, _, err = tx.KeyUsePlace(ctx)
			return err
		})
		if err != nil {
			return fmt.Errorf("read the place of key uses: %w", err)
		}
		ask, cancel := context.WithTimeout(ctx, 2*time.Second)
		bodies, next, err := feed.KeyUse(ask, place)
		cancel()
		if err != nil {
			return err
		}
		if next == place {
			return nil
		}
		if err := s.take(ctx, bodies, place, next); err != nil && !errors.Is(err, errMovedOn) {
			return fmt.Errorf("count the use of keys: %w", err)
		}
	}
}

// take counts a page of the feed, in transactions of bounded size. The place moves
// with the last of them: until then batches may be read again, and are known by
// their numbers.
func (s *KeyUses) take(ctx context.Context, bodies [][]byte, place, next string) error {
	batches := s.decode(ctx, bodies)
	now := s.redisNow(ctx)
	for {
		n, rows := 0, 0
		for n < len(batches) && (n == 0 || rows+len(batches[n].Rows) <= keyRowsPerTx) {
			rows += len(batches[n].Rows)
			n++
		}
		part, to := batches[:n], place
		if batches = batches[n:]; len(batches) == 0 {
			to = next
		}
		if err := s.count(ctx, part, now, place, to); err != nil || to == next {
			return err
		}
	}
}

// count counts batches in one transaction. When that cannot be done for their sake,
// each is tried alone, and what cannot be counted even so is left out: one batch must
// not keep everybody's from being counted for good.
func (s *KeyUses) count(ctx context.Context, batches []*usage.KeyBatch, now time.Time, place, to string) error {
	err := s.d.Store.InTx(ctx, func(tx Tx) error {
		in := keyIntake{d: s.d, tx: tx, now: now}
		return in.take(ctx, batches, place, to)
	})
	if err == nil || errors.Is(err, errMovedOn) || ctx.Err() != nil || len(batches) == 0 || !hopeless(err) {
		return err
	}
	if len(batches) == 1 {
		s.d.Log.ErrorContext(ctx, "a batch of key uses cannot be counted", "replica", batches[0].Replica, "number", batches[0].Seq, "error", err)
		return s.count(ctx, nil, now, place, to)
	}
	last := len(batches) - 1
	for i := range batches[:last] {
		if err := s.count(ctx, batches[i:i+1], now, place, place); err != nil {
			return err
		}
	}
	return s.count(ctx, batches[last:], now, place, to)
}

// hopeless reports whether the same would fail again: not for what another
// transaction or an outage did.
func hopeless(err error) bool {
	return CodeOf(err) == CodeInternal || CodeOf(err) == CodeInvalid
}

// decode reads batches. What is none is left out: whoever may write to the stream may
// write nonsense.
func (s *KeyUses) decode(ctx context.Context, bodies [][]byte) []*usage.KeyBatch {
	batches := make([]*usage.KeyBatch, 0, len(bodies))
	for _, body := range bodies {
		b, err := usage.DecodeKeys(body)
		if err != nil {
			s.d.Log.WarnContext(ctx, "unreadable batch of key uses", "error", err)
			continue
		}
		batches = append(batches, b)
	}
	return batches
}

// keyIntake counts some batches in one transaction.
type keyIntake struct {
	d   Deps
	tx  Tx
	now time.Time // by Redis' clock
}

func (in *keyIntake) take(ctx context.Context, batches []*usage.KeyBatch, place, to string) error {
	at, err := in.tx.LockKeyUsePlace(ctx)
	if err != nil {
		return err
	}
	if at != place {
		return errMovedOn
	}
	fresh, err := in.fresh(ctx, batches)
	if err != nil {
		return err
	}
	var since *time.Time
	if len(fresh) > 0 {
		first := in.clamp(fresh[0].Through)
		since = &first
	}
	if err := in.tx.SetKeyUsePlace(ctx, to, since, in.now); err != nil {
		return err
	}
	sums := newKeySums()
	for _, b := range fresh {
		for i := range b.Rows {
			sums.add(in, &b.Rows[i])
		}
	}
	return in.keep(ctx, sums)
}

// clamp is a second that a replica tells. What claims to be of the future counts as
// now, and what is older than anything that is kept as just that old.
func (in *keyIntake) clamp(second int64) time.Time {
	at := time.Unix(min(second, in.now.Unix()), 0).UTC()
	if oldest := in.now.Add(-keyHoursKept).Truncate(time.Second); at.Before(oldest) {
		return oldest
	}
	return at
}

// fresh picks the batches that were not counted before, and notes how far replicas
// have told and what of it did not arrive.
func (in *keyIntake) fresh(ctx context.Context, batches []*usage.KeyBatch) ([]*usage.KeyBatch, error) {
	replicas := map[string]bool{}
	for _, b := range batches {
		replicas[b.Replica] = true
	}
	if len(replicas) == 0 {
		return nil, nil
	}
	list, err := in.tx.KeyUseRunsOf(ctx, slices.Sorted(maps.Keys(replicas)))
	if err != nil {
		return nil, err
	}
	runs := useRuns{}
	for i := len(list) - 1; i >= 0; i-- { // the newest last
		runs[list[i].Replica] = append(runs[list[i].Replica], &list[i])
	}
	var out []*usage.KeyBatch
	changed := map[*KeyUseRun]bool{}
	for _, b := range batches {
		if run := runs.take(in, b); run != nil {
			out, changed[run] = append(out, b), true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(runs)) {
		for _, run := range runs[name] {
			if !changed[run] {
				continue
			}
			if err := in.tx.PutKeyUseRun(ctx, *run); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// useRuns are the runs of replicas, the newest of each last.
type useRuns map[string][]*KeyUseRun

// take moves a run on by a batch; nil when that was taken before. A number below one
// that was taken is a repetition, unless the batch begins after everything that was
// told: then somebody else used the replica's name, or its Redis went back in time.
func (u useRuns) take(in *keyIntake, b *usage.KeyBatch) *KeyUseRun {
	known := u[b.Replica]
	var run *KeyUseRun
	for _, r := range known {
		if r.Boot == b.Boot {
			run = r
		}
	}
	if run != nil && run.Through.After(in.now) {
		run.Through = in.now // Redis' clock has stepped back: nobody knows of what is still to come
	}
	anew := run != nil && b.From <= in.now.Unix() && b.From > run.Through.Unix()+1
	if run != nil && b.Seq <= run.Seq && !anew {
		return nil
	}
	gap := in.gap(run, known, b)
	if run == nil {
		run = &KeyUseRun{Replica: b.Replica, Boot: b.Boot}
		u[b.Replica] = append(known, run)
	}
	run.Seq, run.Final, run.UpdatedAt = b.Seq, b.Final, in.now
	if through := in.clamp(b.Through); through.After(run.Through) {
		run.Through = through
	}
	if gap != nil {
		run.Missing = gap
	}
	return run
}

// gap is what did not arrive before a batch, or had no room in it: numbers that are
// missing, or the end of a run that never told its last. nil: nothing that is known.
func (in *keyIntake) gap(run *KeyUseRun, known []*KeyUseRun, b *usage.KeyBatch) *UseGap {
	from, to := time.Time{}, in.clamp(b.From)
	switch {
	case run != nil && b.Seq != run.Seq+1:
		from = run.Through
	case run == nil && b.Seq > 1:
		from = in.clamp(b.Started)
	case run == nil && len(known) > 0 && !known[len(known)-1].Final:
		from, to = known[len(known)-1].Through, in.clamp(b.Started)
	}
	if b.Lost > 0 {
		to = in.clamp(max(b.Through, b.From))
		if from.IsZero() {
			from = in.clamp(b.From)
		}
	}
	if from.IsZero() {
		return nil
	}
	if to.Before(from) {
		to = from
	}
	return &UseGap{Replica: b.Replica, From: from, To: to}
}

// keep writes the sums, always in the same order, and tells of revoked keys that are
// still presented.
func (in *keyIntake) keep(ctx context.Context, sums *keySums) error {
	if len(sums.uses) == 0 {
		return nil
	}
	sources, err := in.told(ctx, sums)
	if err != nil {
		return err
	}
	if err := in.tx.AddKeySources(ctx, sources); err != nil {
		return err
	}
	uses := sorted(sums.uses, func(a, b *KeyUse) int { return cmp.Compare(a.KID, b.KID) })
	if err := in.tx.AddKeyUses(ctx, uses); err != nil {
		return err
	}
	hours := sorted(sums.hours, func(a, b *KeyHour) int { return cmp.Or(cmp.Compare(a.KID, b.KID), a.Hour.Compare(b.Hour)) })
	if err := in.tx.AddKeyHours(ctx, hours); err != nil {
		return err
	}
	var kids []string
	var ats []time.Time
	for _, u := range uses {
		if u.LastUsedAt != nil {
			kids, ats = append(kids, u.KID), append(ats, *u.LastUsedAt)
		}
	}
	if len(kids) > 0 {
		if err := in.tx.TouchKeys(ctx, kids, ats); err != nil {
			return err
		}
	}
	return in.alarm(ctx, slices.Sorted(maps.Keys(sums.alarms)))
}

// told is the sources as they are told apart: of each version keySourcesKnown at most,
// whoever comes later belongs to its rest.
func (in *keyIntake) told(ctx context.Context, sums *keySums) ([]KeySource, error) {
	all := sorted(sums.sources, bySource)
	known, err := in.tx.KnownKeySources(ctx, all)
	if err != nil {
		return nil, err
	}
	news := map[string]bool{}
	for _, s := range all {
		if !s.Rest() && !known[KeySourceID{s.KID, s.Network, s.Agent}] {
			news[s.KID] = true
		}
	}
	if len(news) == 0 {
		return all, nil
	}
	counts, err := in.tx.CountKeySources(ctx, slices.Sorted(maps.Keys(news)))
	if err != nil {
		return nil, err
	}
	out := keySums{sources: map[KeySourceID]*KeySource{}}
	for _, s := range all {
		if !s.Rest() && !known[KeySourceID{s.KID, s.Network, s.Agent}] {
			if counts[s.KID] >= keySourcesKnown {
				s.Network, s.Agent = "", ""
			} else {
				counts[s.KID]++
			}
		}
		out.addSource(s)
	}
	return sorted(out.sources, bySource), nil
}

// keyAlarmView is what the audit trail says of the use of a revoked key.
type keyAlarmView struct {
	Network string    `json:"network"`
	Agent   string    `json:"agent"`
	At      time.Time `json:"at"`
}

// alarm tells that revoked keys are still presented, of each once an hour at most. It
// is the last thing that the transaction does.
func (in *keyIntake) alarm(ctx context.Context, kids []string) error {
	if len(kids) == 0 {
		return nil
	}
	alarms, err := in.tx.KeyAlarms(ctx, kids, in.now.Add(-alarmEvery), alarmsPerTx)
	if err != nil || len(alarms) == 0 {
		return err
	}
	told := make([]string, 0, len(alarms))
	for _, a := range alarms {
		told = append(told, a.KID)
	}
	if err := in.tx.SetKeyAlarms(ctx, told, in.now); err != nil {
		return err
	}
	for _, a := range alarms {
		err := in.d.record(ctx, in.tx, SystemActor(), in.d.now(), event{
			action: "key.used-revoked", object: "key", objectID: a.KID, tenantID: a.TenantID,
			after: keyAlarmView{Network: a.Network, Agent: a.Agent, At: a.At},
		})
		if err != nil {
			return err
		}
	}
	return nil
}
