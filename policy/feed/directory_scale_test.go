package feed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
)

// many are n active keys whose names begin with prefix.
func (r *rig) many(prefix string, n int) []policy.SignedRecord {
	out := make([]policy.SignedRecord, n)
	for i := range out {
		out[i] = r.keyRecord(fmt.Sprintf("%s%d", prefix, i), 1, policy.KeyActive)
	}
	return out
}

// TestDirectory_ManyNewKeysCostNoReplicaItsCache: a replica that follows nothing
// while more keys are made than the stream has room for finds its way after it.
func TestDirectory_ManyNewKeysCostNoReplicaItsCache(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	place := r.fill("e1", r.keyRecord("old", 1, policy.KeyActive))
	var resets atomic.Int64
	d := r.directory("", often, func(c *DirectoryConfig) { c.OnReset = func() { resets.Add(1) } })
	stop := start(t, d.Run)
	d.untilPlace(t, place)
	if d.state("old") != "active" {
		t.Fatal("not answered")
	}
	before := resets.Load()
	stop() // as if it slept: what it holds stays
	place = r.put(r.many("n", longestStream+1000)...)
	if n, err := r.client.XLen(t.Context(), "hg:{directory}:changes").Result(); err != nil || n > longestStream/100 {
		t.Fatalf("%d entries in the stream, %v", n, err)
	}
	start(t, d.Run)
	d.untilPlace(t, place)
	if n := resets.Load() - before; n != 0 {
		t.Errorf("the cache was dropped %d times", n)
	}
	misses := d.Stats().Misses
	if got := d.state("old"); got != "active" || d.Stats().Misses != misses {
		t.Errorf("a key that nothing happened to is %s, or Redis had to be asked for it", got)
	}
}

// TestDirectory_R060_KeysThatWereUnknownAreAcceptedAtOnce: each of many new keys
// gets past what is remembered of its absence, and nothing else is forgotten.
func TestDirectory_R060_KeysThatWereUnknownAreAcceptedAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.following(t, rarely)
	untilSubscribed(t, r, 1)
	fresh := r.many("n", 3*manyFrom)
	for _, rec := range fresh {
		if got := d.state(rec.ID); got != "unknown" {
			t.Fatal(got)
		}
	}
	d.state("stranger")
	d.untilPlace(t, r.put(fresh...))
	for _, rec := range fresh {
		if got := d.state(rec.ID); got != "active" {
			t.Errorf("%s is %s after it was made", rec.ID, got)
		}
	}
	misses := d.Stats().Misses
	if d.state("stranger") != "unknown" || d.Stats().Misses != misses {
		t.Error("what is remembered of other keys was forgotten")
	}
}

func TestDirectory_ARevocationAmongManyIsFollowed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	keys := r.many("k", 3*manyFrom)
	d := r.following(t, rarely, append(keys, r.tenantRecord("ten_a", 1, policy.TenantActive))...)
	untilSubscribed(t, r, 1)
	var seen sync.Map
	d.cfg.OnRecord = func(kind policy.RecordKind, id string) { seen.Store(string(kind)+" "+id, true) }
	for _, k := range keys {
		if got := d.state(k.ID); got != "active" {
			t.Fatal(got)
		}
	}
	var changed []policy.SignedRecord
	for _, k := range keys {
		changed = append(changed, r.keyRecord(k.ID, 2, policy.KeyRevoked))
	}
	d.untilPlace(t, r.put(append(changed, r.tenantRecord("ten_a", 2, policy.TenantSuspended))...))
	for _, k := range keys {
		if got := d.state(k.ID); got != "revoked" {
			t.Errorf("%s is %s", k.ID, got)
		}
		if _, told := seen.Load("key " + k.ID); !told {
			t.Errorf("nobody was told of %s", k.ID)
		}
	}
	if got := d.tenantState("ten_a"); got != "suspended" {
		t.Errorf("tenant is %s", got)
	}
}

// TestPublisher_FewChangesAreReadByOlderGateways: an entry of one record has the
// fields it always had; one of many has none of them that could be misread.
func TestPublisher_FewChangesAreReadByOlderGateways(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill("e1")
	r.put(r.many("a", manyFrom-1)...)
	few := r.entries()
	if len(few) != manyFrom-1 || few[0]["kind"] != "key" || few[0]["id"] != "a0" || few[0]["ids"] != nil {
		t.Fatalf("entries are %v", few)
	}
	r.put(r.many("b", manyFrom)...)
	many := r.entries()[manyFrom-1:]
	ids, _ := many[0]["ids"].(string)
	if len(many) != 1 || many[0]["id"] != nil || len(strings.Fields(ids)) != manyFrom {
		t.Fatalf("entries are %v", many)
	}
}

func (r *rig) entries() (out []map[string]any) {
	r.t.Helper()
	messages, err := r.client.XRange(r.t.Context(), "hg:{directory}:changes", "-", "+").Result()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range messages {
		out = append(out, m.Values)
	}
	return out
}

func TestEntriesOf_KeepsTheOrderAndLosesNone(t *testing.T) {
	t.Parallel()
	r := &rig{t: t, key: key('a')}
	records := append(r.many("a", manyFrom), r.tenantRecord("ten_a", 1, policy.TenantActive))
	records = append(records, r.many("b", 2)...)
	records = append(records, r.many("c", manyFrom)...)
	var got []recordID
	for e := entriesOf(records); len(e) > 0; e = e[3:] {
		kind, value := e[0].(string), e[2].(string)
		if e[1] == "ids" {
			kind = "many " + kind
		}
		got = append(got, namedBy(kind, value)...)
	}
	if len(got) != len(records) {
		t.Fatalf("%d records named, not %d", len(got), len(records))
	}
	for i, id := range got {
		if id != (recordID{records[i].Kind, records[i].ID}) {
			t.Errorf("record %d is named %v, not %s %s", i, id, records[i].Kind, records[i].ID)
		}
	}
}

// TestDirectory_BadRecordsAreLoggedOnceASecond: a forged record is looked at by
// each request with its key.
func TestDirectory_BadRecordsAreLoggedOnceASecond(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	lines, begin, ahead := &logLines{}, time.Now(), atomic.Int64{}
	d := r.directory("", rarely, func(c *DirectoryConfig) {
		c.Log, c.Now = slog.New(slog.NewTextHandler(lines, nil)), func() time.Time { return begin.Add(time.Duration(ahead.Load())) }
	})
	place := r.fill("e1")
	start(t, d.Run)
	d.untilPlace(t, place)
	r.do("SET", "hg:key:k1", "forged")
	for range 50 {
		if got := d.state("k1"); got != "unavailable" {
			t.Fatal(got)
		}
	}
	if n := lines.count("record refused"); n != 1 || d.Stats().BadRecords != 50 {
		t.Errorf("%d lines for %d bad records", n, d.Stats().BadRecords)
	}
	ahead.Store(int64(time.Minute))
	d.state("k1")
	if text := lines.String(); !strings.Contains(text, "others=49") {
		t.Errorf("the next line does not say how many others there were:\n%s", text)
	}
}

// logLines is a log in memory.
type logLines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logLines) count(what string) int { return strings.Count(l.String(), what) }

// TestPlainPut_ReadsWhatTheParserReads: the short way and the long way agree on
// lines as they are written, and the short way leaves all others alone.
func TestPlainPut_ReadsWhatTheParserReads(t *testing.T) {
	t.Parallel()
	for _, put := range [][]byte{[]byte("x"), []byte("\x00\xff\xfe>?"), bytes.Repeat([]byte("record"), 500)} {
		raw, err := json.Marshal(line{Put: put})
		if err != nil {
			t.Fatal(err)
		}
		var long line
		if err := json.Unmarshal(raw, &long); err != nil {
			t.Fatal(err)
		}
		if short := plainPut(raw); !bytes.Equal(short, long.Put) || !bytes.Equal(short, put) {
			t.Errorf("%q is read as %q and as %q", raw, short, long.Put)
		}
	}
	for _, other := range []string{"", "{}", `{"put":""}`, `{"put":"YQ"}`, `{"put":"YQ==","x":1}`, `{"put": "YQ=="}`, `{"put":"Y\u0051=="}`, `{"put":"YQ=="`, `{"put":"YR=="}`, `{"head":{}}`, "{\"put\":\"YQ\r==\"}"} {
		if got := plainPut([]byte(other)); got != nil {
			t.Errorf("%q is read as %q", other, got)
		}
	}
}

func BenchmarkDecodeDirectory(b *testing.B) {
	r := &rig{t: b, key: key('a')}
	var file bytes.Buffer
	if err := writeDirectory(&file, fileHead{Deployment: deployment}, r.many("k", 10_000)); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if f, err := decodeDirectory(bytes.NewReader(file.Bytes()), int64(file.Len())); err != nil || len(f.records) != 10_000 {
			b.Fatal(len(f.records), err)
		}
	}
}
