package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/policy"
)

const (
	// maxRecord is above what DecodeRecord takes.
	maxRecord = 64 << 10
	// negativeFor is how long after a confirmed poll remembered misses hold: a
	// few polls, so that a new key is never refused by a replica that is cut off.
	negativeFor = 3 * time.Second
	// lookupTries is how often a lookup is repeated whose answer a change overtook.
	lookupTries = 3
)

// Key is the record of a key version, in whatever state it is; deadlines are
// the caller's to hold. It fails with ErrUnknown or ErrUnavailable.
func (d *Directory) Key(ctx context.Context, kid string) (policy.KeyRecord, error) {
	rec, err := d.find(ctx, recordID{policy.RecordKey, kid})
	if err != nil {
		return policy.KeyRecord{}, err
	}
	return rec.key, nil
}

// Tenant is the record of a tenant, in whatever state it is. It fails with
// ErrUnknown or ErrUnavailable.
func (d *Directory) Tenant(ctx context.Context, id string) (policy.TenantRecord, error) {
	rec, err := d.find(ctx, recordID{policy.RecordTenant, id})
	if err != nil {
		return policy.TenantRecord{}, err
	}
	return rec.tenant, nil
}

// Cached is Key from the cache alone: no question to Redis, the same deadline
// for what is stale, and no answer at all about keys that are not there.
func (d *Directory) Cached(kid string) (policy.KeyRecord, bool) {
	if d.contactAge() > d.cfg.MaxStale {
		return policy.KeyRecord{}, false
	}
	rec, _ := d.cache.get(recordID{policy.RecordKey, kid})
	if rec == nil {
		return policy.KeyRecord{}, false
	}
	return rec.key, true
}

func (d *Directory) find(ctx context.Context, id recordID) (*record, error) {
	if !policy.ValidID(id.id) {
		return nil, d.failed(id, ErrUnknown)
	}
	if age := d.contactAge(); age <= d.cfg.MaxStale {
		rec, unknown := d.cache.get(id)
		if rec != nil {
			d.counts.hits.Add(1)
			return rec, nil
		}
		if unknown && age <= negativeFor && d.whole.Load() {
			d.counts.hits.Add(1)
			return nil, d.failed(id, ErrUnknown)
		}
	}
	if d.breaker.open.Load() {
		return nil, d.failed(id, ErrUnavailable)
	}
	rec, err := d.fetch(ctx, id)
	if err != nil {
		return nil, d.failed(id, err)
	}
	return rec, nil
}

func (d *Directory) contactAge() time.Duration {
	ns := d.contact.Load()
	if ns == 0 {
		return 1<<63 - 1
	}
	return max(0, d.cfg.Now().Sub(time.Unix(0, ns)))
}

func (d *Directory) failed(id recordID, err error) error {
	if errors.Is(err, ErrUnknown) {
		d.counts.unknown.Add(1)
	} else {
		d.counts.unavailable.Add(1)
	}
	return &lookupError{id, err}
}

// lookupError is why a lookup failed. Its text is made when somebody reads it:
// strangers who guess must cost little, and a miss as much as a hit.
type lookupError struct {
	id    recordID
	cause error
}

func (e *lookupError) Error() string {
	return fmt.Sprintf("look up %s %q: %v", e.id.kind, shorten(e.id.id), e.cause)
}

func (e *lookupError) Unwrap() error { return e.cause }

// fetch asks Redis, together with everybody who asks for the same now. The
// question has a deadline of its own: a caller who leaves takes nobody with him.
func (d *Directory) fetch(ctx context.Context, id recordID) (*record, error) {
	f, leader := d.cache.join(id)
	if leader {
		d.counts.misses.Add(1)
		go d.ask(id, f) //nolint:gosec,contextcheck // several wait for it: it outlives who asked first
	}
	timer := time.NewTimer(d.cfg.Timeout)
	defer timer.Stop()
	select {
	case <-f.done:
		return f.rec, f.err
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, ErrUnavailable
}

func (d *Directory) ask(id recordID, f *flight) {
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.Timeout)
	defer cancel()
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-ctx.Done():
		d.cache.fail(id, f)
		return
	}
	for range lookupTries {
		changes := d.cache.asking(f)
		reply, err := d.askRedis(ctx, id)
		if err != nil {
			if d.breaker.failed() {
				d.cfg.Log.Warn("directory lookups stopped until Redis answers", "error", err)
				d.ring()
			}
			break
		}
		d.breaker.answered()
		o, err := d.judge(id, reply)
		if err != nil {
			break
		}
		// Before anybody is told of the key: his next question is for its tenant.
		d.takeTenant(reply, changes)
		if d.cache.settle(id, f, o) {
			return
		}
	}
	d.cache.fail(id, f)
}

// answer is what the lookup script says.
type answer struct {
	epoch, found, record string
	tenant, tenantRecord string
}

func (d *Directory) askRedis(ctx context.Context, id recordID) (answer, error) {
	if d.clustered() {
		return d.askCluster(ctx, id)
	}
	prefix := ""
	if id.kind == policy.RecordKey {
		prefix = d.keys.record(policy.RecordTenant, "")
	}
	k := []string{d.keys.directoryHead(), d.keys.record(id.kind, id.id)}
	v, err := lookupScript.RunRO(ctx, d.cfg.Client, k, prefix, maxRecord).StringSlice()
	if err != nil {
		return answer{}, fmt.Errorf("look up record: %w", err)
	}
	if len(v) != 5 {
		return answer{}, fmt.Errorf("look up record: script answered %d values, not 5", len(v))
	}
	return answer{epoch: v[0], found: v[1], record: v[2], tenant: v[3], tenantRecord: v[4]}, nil
}

func (d *Directory) clustered() bool {
	_, is := d.cfg.Client.(*redis.ClusterClient)
	return is
}

// askCluster asks the server that has the record and, where there is none, the
// one that has the directory's head. An absent record means that there is none
// when the directory was whole before and still is, under the same name: it
// gets a new one whenever it is filled.
func (d *Directory) askCluster(ctx context.Context, id recordID) (answer, error) {
	before := ""
	if d.whole.Load() {
		before = d.Place().Epoch
	}
	v, err := findScript.RunRO(ctx, d.cfg.Client, []string{d.keys.record(id.kind, id.id)}, maxRecord).StringSlice()
	if err == nil && len(v) != 2 {
		err = fmt.Errorf("script answered %d values, not 2", len(v))
	}
	if err != nil {
		return answer{}, fmt.Errorf("look up record: %w", err)
	}
	a := answer{found: v[0], record: v[1]}
	if a.found != "none" {
		return a, nil
	}
	epoch, err := d.cfg.Client.HGet(ctx, d.keys.directoryHead(), "epoch").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return answer{}, fmt.Errorf("look up directory: %w", err)
	}
	if epoch == before {
		a.epoch = epoch
	} else {
		d.ring() // to follow where it is now
	}
	return a, nil
}

// judge decides what an answer is worth. An error means: nothing can be told.
func (d *Directory) judge(id recordID, a answer) (outcome, error) {
	if a.found == "none" {
		if a.epoch == "" {
			return outcome{}, ErrUnavailable // being filled, or lost
		}
		return outcome{unknown: true}, nil
	}
	rec, err := d.decode(id, a.record)
	if err != nil {
		d.badRecord(id, err)
		return outcome{}, ErrUnavailable
	}
	return outcome{rec: rec}, nil
}

// takeTenant caches the tenant's record that came with a key's.
func (d *Directory) takeTenant(a answer, changes uint64) {
	if a.tenantRecord == "" {
		return
	}
	id := recordID{policy.RecordTenant, a.tenant}
	rec, err := d.decode(id, a.tenantRecord)
	if err != nil {
		d.badRecord(id, err)
		return
	}
	d.cache.offer(id, rec, changes)
}

func (d *Directory) decode(id recordID, raw string) (*record, error) {
	signed, err := policy.DecodeRecord([]byte(raw))
	if err != nil {
		return nil, err
	}
	return d.verify(id, signed)
}

// verify holds a record to its signature, this deployment, and the id under
// which it was found: one record cannot stand in for another.
func (d *Directory) verify(id recordID, signed policy.SignedRecord) (*record, error) {
	if signed.Kind != id.kind || signed.ID != id.id {
		return nil, fmt.Errorf("record is of %s %q", signed.Kind, signed.ID)
	}
	if err := policy.VerifyRecord(d.cfg.PublicKeys, d.cfg.Deployment, signed); err != nil {
		return nil, err
	}
	rec := &record{signed: signed}
	var err error
	var named string
	if id.kind == policy.RecordKey {
		err = json.Unmarshal(signed.Body, &rec.key)
		named = rec.key.KID
	} else {
		err = json.Unmarshal(signed.Body, &rec.tenant)
		named = rec.tenant.ID
	}
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	if named != id.id {
		return nil, fmt.Errorf("body is of %q", named)
	}
	return rec, nil
}

// badRecord counts a record that is refused and logs one a second at most:
// whoever can write to Redis must not be able to fill a disk, and a caller who
// asks again and again finds the same one each time.
func (d *Directory) badRecord(id recordID, err error) {
	d.counts.bad.Add(1)
	now, last := d.cfg.Now().UnixNano(), d.badLogged.Load()
	if last != 0 && now-last < int64(time.Second) && now >= last || !d.badLogged.CompareAndSwap(last, now) {
		d.badUnsaid.Add(1)
		return
	}
	d.cfg.Log.Warn("directory record refused", "kind", string(id.kind), "id", id.id, "error", err, "others", d.badUnsaid.Swap(0))
}
