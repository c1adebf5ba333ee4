package feed

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
)

func (r *rig) keyRecord(kid string, seq int64, state policy.KeyState) policy.SignedRecord {
	r.t.Helper()
	s, err := policy.SignRecord(r.key, deployment, policy.RecordKey, kid, seq, policy.KeyRecord{
		KID: kid, Tenant: "ten_a", Credential: "crd_a", Environment: "live", Digest: "sha256:00", State: state,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) tenantRecord(id string, seq int64, state policy.TenantState) policy.SignedRecord {
	r.t.Helper()
	s, err := policy.SignRecord(r.key, deployment, policy.RecordTenant, id, seq, policy.TenantRecord{ID: id, Plan: "free", State: state})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) put(records ...policy.SignedRecord) policy.Place {
	r.t.Helper()
	place, err := r.pub.PutRecords(r.t.Context(), records)
	if err != nil {
		r.t.Fatal(err)
	}
	return place
}

// fill makes a whole directory of the records.
func (r *rig) fill(epoch string, records ...policy.SignedRecord) policy.Place {
	r.t.Helper()
	if err := r.pub.BeginDirectory(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.put(records...)
	place, err := r.pub.FinishDirectory(r.t.Context(), epoch)
	if err != nil {
		r.t.Fatal(err)
	}
	return place
}

func TestPublishPolicy_NeverGoesBackAndIsIdempotent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []struct {
		version int64
		rate    int
		want    string
	}{
		{3, 60, "published"}, {3, 60, "same"}, {3, 61, "conflict"}, {2, 60, "went-back"}, {2, 61, "went-back"},
		{9, 60, "published"}, {3, 60, "went-back"}, {10, 61, "published"},
	} {
		if got, err := r.pub.PublishPolicy(t.Context(), r.signed(c.version, c.rate)); err != nil || got != c.want {
			t.Fatalf("version %d of rate %d: %q, %v; want %q", c.version, c.rate, got, err, c.want)
		}
	}
	s, err := r.pub.State(t.Context())
	if err != nil || s.Version != 10 || s.Digest != policy.DigestOf(document(61)) || s.PolicyEpoch == "" || s.BodyMissing {
		t.Fatalf("state is %+v, %v", s, err)
	}
}

func TestPublishPolicy_WritesTheDocumentedHead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publish(7, 60)
	head := r.client.HGetAll(t.Context(), "hg:{policy}:head").Val()
	want := []string{"bodies", "digest", "epoch", "issued", "parent", "signature", "signer", "version"}
	if got := slices.Sorted(maps.Keys(head)); !slices.Equal(got, want) {
		t.Fatalf("fields are %v, want %v", got, want)
	}
	if head["version"] != "7" || head["digest"] != p.Digest || head["signer"] != p.Signer || head["issued"] != strconv.FormatInt(p.Issued.UnixMicro(), 10) {
		t.Fatalf("head is %v", head)
	}
	if body := r.client.Get(t.Context(), "hg:{policy}:body:7").Val(); body != string(p.Body) {
		t.Fatalf("body is %q", body)
	}
}

func TestPublishPolicy_KeepsTheNewestEightBodiesWhateverTheGaps(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range int64(20) {
		r.publish(i*i+1, int(i)+1)
	}
	bodies := r.client.Keys(t.Context(), "hg:{policy}:body:*").Val()
	if len(bodies) != keptBodies {
		t.Fatalf("%d bodies: %v", len(bodies), bodies)
	}
	for i := int64(12); i < 20; i++ {
		if !slices.Contains(bodies, fmt.Sprintf("hg:{policy}:body:%d", i*i+1)) {
			t.Errorf("body of version %d is gone", i*i+1)
		}
	}
}

func TestPublishPolicy_PutsBackWhatWasLostOrTamperedWith(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publish(4, 60)
	for name, harm := range map[string][]any{
		"body deleted":  {"DEL", "hg:{policy}:body:4"},
		"body changed":  {"SET", "hg:{policy}:body:4", "{}"},
		"body a list":   {"EVAL", "redis.call('DEL',KEYS[1]); redis.call('RPUSH',KEYS[1],'x')", 1, "hg:{policy}:body:4"},
		"signature off": {"HSET", "hg:{policy}:head", "signature", "AAAA"},
	} {
		r.do(harm...)
		if got, err := r.pub.PublishPolicy(t.Context(), p); err != nil || got != "same" {
			t.Fatalf("%s: %q, %v", name, got, err)
		}
		if body := r.client.Get(t.Context(), "hg:{policy}:body:4").Val(); body != string(p.Body) {
			t.Fatalf("%s: body is %q", name, body)
		}
	}
	for name, harm := range map[string][]any{
		"head a string":    {"SET", "hg:{policy}:head", "x"},
		"head deleted":     {"DEL", "hg:{policy}:head"},
		"version nonsense": {"HSET", "hg:{policy}:head", "version", "many"},
		"version 2^63":     {"HSET", "hg:{policy}:head", "version", "9223372036854775808"},
	} {
		r.do(harm...)
		if got, err := r.pub.PublishPolicy(t.Context(), p); err != nil || got != "published" {
			t.Fatalf("%s: %q, %v", name, got, err)
		}
	}
	r.do("DEL", "hg:{policy}:body:4")
	if s, err := r.pub.State(t.Context()); err != nil || !s.BodyMissing {
		t.Fatalf("state %+v, %v does not say that the body is missing", s, err)
	}
}

func TestRestorePolicy_WritesOverWhatItWasToldOfOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	forged, right := r.signed(3, 61), r.signed(3, 60)
	if _, err := r.pub.PublishPolicy(t.Context(), forged); err != nil {
		t.Fatal(err)
	}
	if err := r.pub.RestorePolicy(t.Context(), right, forged); err != nil {
		t.Fatal(err)
	}
	s, err := r.pub.State(t.Context())
	if err != nil || s.Version != 3 || s.Digest != right.Digest || s.BodyMissing {
		t.Fatalf("state is %+v, %v", s, err)
	}
	if got, err := r.pub.PublishPolicy(t.Context(), right); err != nil || got != "same" {
		t.Errorf("published again: %q, %v", got, err)
	}
	higher := r.signed(4, 61)
	if _, err := r.pub.PublishPolicy(t.Context(), higher); err != nil {
		t.Fatal(err)
	}
	if err := r.pub.RestorePolicy(t.Context(), right, forged); err == nil {
		t.Error("a version was put over another one than it was told of")
	}
	if err := r.pub.RestorePolicy(t.Context(), right, higher); err != nil {
		t.Errorf("a foreign head with a higher number stays: %v", err)
	}
	if s, err := r.pub.State(t.Context()); err != nil || s.Version != 3 || s.Digest != right.Digest {
		t.Errorf("state is %+v, %v", s, err)
	}
}

func TestPublishPolicy_OfTwoConsolesOneWins(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for version := int64(1); version <= 30; version++ {
		var racing sync.WaitGroup
		results := make([]string, 2)
		for i := range results {
			racing.Go(func() {
				var err error
				if results[i], err = r.pub.PublishPolicy(t.Context(), r.signed(version, 100+i)); err != nil {
					t.Error(err)
				}
			})
		}
		racing.Wait()
		slices.Sort(results)
		if !slices.Equal(results, []string{"conflict", "published"}) {
			t.Fatalf("version %d: %v", version, results)
		}
	}
}

func TestPutRecords_OlderIsRefusedAndEachIsAnnounced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill("e1")
	want := string(r.keyRecord("k1", 5, policy.KeyActive).Encode())
	for i, step := range []struct {
		name string
		harm []any
		put  policy.SignedRecord
		want string
	}{
		{"new", nil, r.keyRecord("k1", 5, policy.KeyActive), want},
		{"the same again, as after a call that was cut off", nil, r.keyRecord("k1", 5, policy.KeyActive), want},
		{"older", nil, r.keyRecord("k1", 4, policy.KeyRevoked), want},
		{"tampered with", []any{"SET", "hg:key:k1", "hgr1 key k1 5 x y\n{}"}, r.keyRecord("k1", 5, policy.KeyActive), want},
		{"of another type", []any{"EVAL", "redis.call('DEL',KEYS[1]); redis.call('RPUSH',KEYS[1],'x')", 1, "hg:key:k1"}, r.keyRecord("k1", 5, policy.KeyActive), want},
		{"newer", nil, r.keyRecord("k1", 6, policy.KeyRevoked), string(r.keyRecord("k1", 6, policy.KeyRevoked).Encode())},
	} {
		if step.harm != nil {
			r.do(step.harm...)
		}
		place, err := r.pub.PutRecords(t.Context(), []policy.SignedRecord{step.put})
		if errors.Is(err, policy.ErrNewerRecord) != (step.name == "older") {
			t.Fatalf("%s: error is %v", step.name, err)
		}
		if place != (policy.Place{Epoch: "e1", Seq: int64(i + 1)}) {
			t.Fatalf("%s: the place is %+v", step.name, place)
		}
		if got := r.client.Get(t.Context(), "hg:key:k1").Val(); got != step.want {
			t.Fatalf("%s: record is %q, want %q", step.name, got, step.want)
		}
	}
}

func TestPutRecords_AnnouncesEachInOrderAcrossCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill("e1")
	var records []policy.SignedRecord
	for i := range recordsPerCall + 50 {
		records = append(records, r.keyRecord(fmt.Sprintf("k%d", i), 1, policy.KeyActive))
	}
	if place := r.put(records...); place.Seq != 2 {
		t.Fatalf("place is %+v, want one change for each call", place)
	}
	entries := r.client.XRange(t.Context(), "hg:{directory}:changes", "-", "+").Val()
	var announced []string
	for i, e := range entries {
		ids, _ := e.Values["ids"].(string)
		if e.ID != fmt.Sprintf("%d-0", i+1) || e.Values["kind"] != "key" {
			t.Fatalf("entry %d is %+v", i, e)
		}
		announced = append(announced, strings.Fields(ids)...)
	}
	if len(entries) != 2 || len(announced) != len(records) {
		t.Fatalf("%d entries name %d records", len(entries), len(announced))
	}
	for i, id := range announced {
		if id != records[i].ID {
			t.Fatalf("record %d is announced as %s, not %s", i, id, records[i].ID)
		}
	}
	if place, err := r.pub.PutRecords(t.Context(), nil); err != nil || place.Seq != 2 {
		t.Fatalf("putting nothing gives %+v, %v; want the present place", place, err)
	}
}

func TestPutRecords_FinalRecordsGoAfterThirtyDays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put(r.keyRecord("k1", 1, policy.KeyRevoked), r.keyRecord("k2", 1, policy.KeyExpired), r.keyRecord("k3", 1, policy.KeyRetiring),
		r.tenantRecord("ten_a", 1, policy.TenantDeleted), r.tenantRecord("ten_b", 1, policy.TenantSuspended))
	for k, final := range map[string]bool{"hg:key:k1": true, "hg:key:k2": true, "hg:key:k3": false, "hg:tenant:ten_a": true, "hg:tenant:ten_b": false} {
		ttl := r.client.PTTL(t.Context(), k).Val()
		if final != (ttl > recordTTL-time.Minute && ttl <= recordTTL) || !final && ttl >= 0 {
			t.Errorf("%s lives for %v, final %v", k, ttl, final)
		}
	}
}

func TestFill_LeavesNothingTheConsoleDoesNotKnow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill("e1", r.keyRecord("gone", 9, policy.KeyActive), r.keyRecord("stays", 9, policy.KeyActive))
	// A database that was restored numbers from lower on.
	place := r.fill("e2", r.keyRecord("stays", 3, policy.KeyActive))
	if place.Epoch != "e2" {
		t.Fatalf("place is %+v", place)
	}
	if n := r.client.Exists(t.Context(), "hg:key:gone").Val(); n != 0 {
		t.Error("a record that the console does not know is still there")
	}
	if got := r.client.Get(t.Context(), "hg:key:stays").Val(); got != string(r.keyRecord("stays", 3, policy.KeyActive).Encode()) {
		t.Errorf("record is %q", got)
	}
	if s, err := r.pub.State(t.Context()); err != nil || s.Directory != place {
		t.Errorf("state is %+v, %v; want place %+v", s, err, place)
	}
}

func TestFill_HasNoEpochMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill("e1")
	if err := r.pub.BeginDirectory(t.Context()); err != nil {
		t.Fatal(err)
	}
	if place := r.put(r.keyRecord("k1", 1, policy.KeyActive)); place.Epoch != "" {
		t.Fatalf("place is %+v while the directory is being filled", place)
	}
	if s, err := r.pub.State(t.Context()); err != nil || s.Directory.Epoch != "" {
		t.Fatalf("state is %+v, %v while the directory is being filled", s, err)
	}
}

func TestFill_LostMeanwhileIsNotTakenForWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.pub.BeginDirectory(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.put(r.keyRecord("k1", 1, policy.KeyActive))
	r.do("FLUSHALL")
	r.put(r.keyRecord("k2", 1, policy.KeyActive))
	if place, err := r.pub.FinishDirectory(t.Context(), "e1"); !errors.Is(err, ErrFillLost) {
		t.Fatalf("half a directory was finished at %+v, %v", place, err)
	}
	if s, err := r.pub.State(t.Context()); err != nil || s.Directory.Epoch != "" {
		t.Fatalf("state is %+v, %v", s, err)
	}
	other, err := NewPublisher(r.config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.FinishDirectory(t.Context(), "e1"); !errors.Is(err, ErrFillLost) {
		t.Fatalf("a filling that was not begun was finished: %v", err)
	}
}

func TestPutRecords_SurvivesTamperingWithHeadAndStream(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	seq := int64(0)
	for name, harm := range map[string][]any{
		"head deleted":          {"DEL", "hg:{directory}:head"},
		"head a string":         {"SET", "hg:{directory}:head", "x"},
		"seq nonsense":          {"HSET", "hg:{directory}:head", "seq", "x"},
		"seq behind the stream": {"HSET", "hg:{directory}:head", "seq", "1"},
		"stream a string":       {"SET", "hg:{directory}:changes", "x"},
	} {
		r.fill("e-"+name, r.tenantRecord("ten_a", 1, policy.TenantActive), r.tenantRecord("ten_b", 1, policy.TenantActive))
		r.do(harm...)
		seq++
		place := r.put(r.keyRecord("k1", seq+100, policy.KeyActive))
		if place.Epoch != "" {
			t.Errorf("%s: the directory still passes for whole at %+v", name, place)
		}
		if n := r.client.XLen(t.Context(), "hg:{directory}:changes").Val(); n != 1 {
			t.Errorf("%s: %d entries in the stream, want the one of this change", name, n)
		}
	}
}

func TestScripts_AreLoadedAgainAfterAFlush(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill("e1")
	for i := range int64(20) {
		r.do("SCRIPT", "FLUSH")
		r.publish(i+1, int(i)+1)
		r.do("SCRIPT", "FLUSH")
		if place := r.put(r.keyRecord("k1", i+1, policy.KeyActive)); place.Seq != i+1 {
			t.Fatalf("place is %+v after %d changes: not exactly one each", place, i+1)
		}
	}
}

func TestPublisher_EveryCallFailsWithoutRedis(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.redis.Kill()
	ctx := t.Context()
	_, publish := r.pub.PublishPolicy(ctx, r.signed(1, 60))
	_, put := r.pub.PutRecords(ctx, []policy.SignedRecord{r.keyRecord("k1", 1, policy.KeyActive)})
	_, state := r.pub.State(ctx)
	_, replicas := r.pub.Replicas(ctx)
	_, now := r.pub.Now(ctx)
	_, ping := r.pub.Ping(ctx)
	_, _, counts := r.pub.Usage(ctx, "")
	for action, err := range map[string]error{
		"publish": publish, "put": put, "state": state, "replicas": replicas, "now": now, "ping": ping, "usage": counts,
		"begin": r.pub.BeginDirectory(ctx), "stamp": r.pub.PutStamp(ctx, policy.Stamp{}),
	} {
		if err == nil {
			t.Errorf("%s: no error without Redis", action)
		}
	}
}
