package feed

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/policy"
)

// stopped runs a directory on dir, has it look up the keys, and stops it.
func (r *rig) stopped(t *testing.T, dir string, place policy.Place, kids ...string) {
	t.Helper()
	d := r.directory(dir, often)
	stop := start(t, d.Run)
	d.untilPlace(t, place)
	for _, kid := range kids {
		if got := d.state(kid); got != "active" {
			t.Fatalf("%s is %s", kid, got)
		}
	}
	stop()
	if s := d.Stats(); s.Disk != "" {
		t.Fatalf("disk: %s", s.Disk)
	}
}

func TestDirectoryFile_ARestartWithoutRedisKnowsWhatWasCached(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	place := r.fill("e1", r.keyRecord("k1", 1, policy.KeyActive), r.keyRecord("k2", 1, policy.KeyActive), r.tenantRecord("ten_a", 1, policy.TenantActive))
	dir := t.TempDir()
	r.stopped(t, dir, place, "k1")
	r.redis.Kill()
	d := r.directory(dir, often)
	if d.Place() != place {
		t.Errorf("place is %+v, want %+v", d.Place(), place)
	}
	if d.state("k1") != "active" || d.tenantState("ten_a") != "active" || d.state("k2") != "unavailable" {
		t.Errorf("k1 %s, tenant %s, k2 %s", d.state("k1"), d.tenantState("ten_a"), d.state("k2"))
	}
	d.now.advance(DefaultMaxStale + time.Second)
	if got := d.state("k1"); got != "unavailable" {
		t.Errorf("k1 is %s after MaxStale: the time of the last contact is not kept", got)
	}
}

func TestDirectoryFile_TheTimeOfTheLastContactSurvives(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	place := r.fill("e1", r.keyRecord("k1", 1, policy.KeyActive))
	dir := t.TempDir()
	r.stopped(t, dir, place, "k1")
	old := time.Now().Add(-DefaultMaxStale - time.Minute)
	if err := os.Chtimes(directoryPath(dir), old, old); err != nil {
		t.Fatal(err)
	}
	r.redis.Pause()
	defer r.redis.Resume()
	d := r.directory(dir, rarely, func(c *DirectoryConfig) { c.Timeout = 10 * time.Millisecond })
	if got := d.state("k1"); got != "unavailable" {
		t.Errorf("k1 is %s long after the last contact", got)
	}
	ahead := time.Now().Add(time.Hour) // the clock was wrong when it was noted
	if err := os.Chtimes(directoryPath(dir), ahead, ahead); err != nil {
		t.Fatal(err)
	}
	d = r.directory(dir, rarely)
	d.now.advance(DefaultMaxStale + time.Second)
	if got := d.state("k1"); got == "active" {
		t.Error("a contact in the future stretches MaxStale")
	}
}

// TestDirectoryFile_WhatWasNeverConfirmedIsNotBelieved: a replica that saw only
// a directory being filled has no contact to count MaxStale from.
func TestDirectoryFile_WhatWasNeverConfirmedIsNotBelieved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put(r.keyRecord("k1", 1, policy.KeyActive)) // without an epoch
	dir := t.TempDir()
	d := r.directory(dir, often)
	// The first poll drops what the stream names. Were it to come after the
	// lookup, the cache would rightly be empty.
	until(t, d.changed, "the change followed", func() bool { d.poll(t.Context()); return d.cursor == 1 })
	stop := start(t, d.Run)
	if got := d.state("k1"); got != "active" {
		t.Fatalf("k1 is %s although its record is there", got)
	}
	stop()
	r.redis.Kill()
	again := r.directory(dir, rarely)
	if s := again.Stats(); s.Entries != 1 {
		t.Fatalf("stats are %+v", s)
	}
	if got := again.state("k1"); got != "unavailable" {
		t.Errorf("k1 is %s", got)
	}
}

func TestDirectoryFile_ARestartFollowsWhatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	place := r.fill("e1", r.keyRecord("k1", 1, policy.KeyActive), r.keyRecord("k2", 1, policy.KeyActive))
	dir := t.TempDir()
	r.stopped(t, dir, place, "k1", "k2")
	place = r.put(r.keyRecord("k1", 2, policy.KeyRevoked))
	d := r.directory(dir, often)
	start(t, d.Run)
	d.untilPlace(t, place)
	if d.state("k1") != "revoked" || d.state("k2") != "active" {
		t.Fatalf("k1 %s, k2 %s", d.state("k1"), d.state("k2"))
	}
	if s := d.Stats(); s.Misses != 1 {
		t.Errorf("%d questions: only what changed was to be asked again", s.Misses)
	}
}

// TestDirectoryFile_AKillDoesNotBringARevokedKeyBack reads the file as it lies
// there while the process still runs: that is what a kill leaves.
func TestDirectoryFile_AKillDoesNotBringARevokedKeyBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	place := r.fill("e1", r.keyRecord("k1", 1, policy.KeyActive), r.keyRecord("k2", 1, policy.KeyActive))
	dir := t.TempDir()
	d := r.directory(dir, often)
	start(t, d.Run)
	d.untilPlace(t, place)
	if d.state("k1") != "active" || d.state("k2") != "active" {
		t.Fatal("not answered")
	}
	kept := func() (kids []string) {
		f, _, err := loadDirectory(directoryPath(dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range f.records {
			kids = append(kids, rec.ID)
		}
		return kids
	}
	until(t, d.changed, "both on disk", func() bool { return len(kept()) == 2 })
	d.untilPlace(t, r.put(r.keyRecord("k1", 2, policy.KeyRevoked)))
	until(t, d.changed, "drop on disk", func() bool { return fmt.Sprint(kept()) == "[k2]" })
}

func TestDirectoryFile_CorruptionIsReportedAndTreatedAsAbsent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	place := r.fill("e1", r.keyRecord("k1", 1, policy.KeyActive), r.keyRecord("k2", 1, policy.KeyActive))
	dir := t.TempDir()
	r.stopped(t, dir, place, "k1", "k2")
	path := directoryPath(dir)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(whole)
	flipped[len(whole)/2] ^= 4
	lines := bytes.SplitAfter(whole, []byte("\n"))
	for name, content := range map[string][]byte{
		"bit flipped": flipped, "empty": {}, "nonsense": []byte("hello\n"), "zeros": append(make([]byte, 100), '\n'),
		"no head": bytes.Join(lines[1:], nil), "two heads": append(bytes.Clone(lines[0]), lines[0]...), "empty line": append(bytes.Clone(lines[0]), '\n'),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		d := r.directory(dir, often)
		if s := d.Stats(); s.Entries != 0 || s.Disk == "" || d.Place() != (policy.Place{}) {
			t.Errorf("%s: %+v at %+v", name, s, d.Place())
		}
		stop := start(t, d.Run)
		d.untilPlace(t, place)
		if got := d.state("k1"); got != "active" {
			t.Errorf("%s: k1 is %s", name, got)
		}
		stop()
		if s := d.Stats(); s.Disk != "" {
			t.Errorf("%s: still reported after a good file was written: %s", name, s.Disk)
		}
	}
}

func TestDirectoryFile_ATornLastLineIsPassedOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	place := r.fill("e1", r.keyRecord("k1", 1, policy.KeyActive))
	dir := t.TempDir()
	r.stopped(t, dir, place, "k1")
	f, err := os.OpenFile(directoryPath(dir), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`01234567 {"put":"aGd`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if s := r.directory(dir, rarely).Stats(); s.Entries != 1 || s.Disk != "" {
		t.Fatalf("stats are %+v", s)
	}
}

func TestDirectoryFile_ForeignOrForgedRecordsAreNotBelieved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := *r
	other.key = key('x')
	dir := t.TempDir()
	var b bytes.Buffer
	head := fileHead{Deployment: deployment, Place: policy.Place{Epoch: "e1", Seq: 3}}
	if err := writeDirectory(&b, head, []policy.SignedRecord{other.keyRecord("k1", 1, policy.KeyActive), r.keyRecord("k2", 1, policy.KeyActive)}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(directoryPath(dir), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	r.redis.Kill()
	d := r.directory(dir, rarely)
	if d.state("k1") != "unavailable" || d.state("k2") != "active" || d.Stats().BadRecords != 1 {
		t.Fatalf("k1 %s, k2 %s, %+v", d.state("k1"), d.state("k2"), d.Stats())
	}
	for _, other := range []string{"staging", ""} {
		b.Reset()
		if err := writeDirectory(&b, fileHead{Deployment: other}, []policy.SignedRecord{r.keyRecord("k2", 1, policy.KeyActive)}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(directoryPath(dir), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if s := r.directory(dir, rarely).Stats(); s.Entries != 0 || !strings.Contains(s.Disk, "deployment") {
			t.Fatalf("deployment %q: %+v", other, s)
		}
	}
}

func TestDirectoryFile_IsPrivateAndStaysSmall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := t.TempDir()
	d := r.directory(dir, rarely)
	id := recordID{policy.RecordKey, "k1"}
	for i := range int64(3000) { // each a put and a drop
		rec, err := d.verify(id, r.keyRecord("k1", i+1, policy.KeyActive))
		if err != nil {
			t.Fatal(err)
		}
		d.cache.offer(id, rec, d.cache.changes)
		if i < 2999 {
			d.cache.drop(id, i)
		}
		if i%10 == 0 {
			d.file.step(t.Context())
		}
	}
	d.file.step(t.Context())
	d.file.close(t.Context())
	if f, _, err := loadDirectory(directoryPath(dir)); err != nil || len(f.records) != 1 || f.records[0].Seq != 3000 {
		t.Fatalf("file has %+v, %v", f.records, err)
	}
	raw, err := os.ReadFile(directoryPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(raw, []byte("\n")); n > slack+50 {
		t.Errorf("%d lines for one record", n)
	}
	info, err := os.Stat(directoryPath(dir))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file is %v, %v", info, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestDirectoryFile_ADiskThatFailsIsReportedAndHarmless(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	place := r.fill("e1", r.keyRecord("k1", 1, policy.KeyActive))
	dir := filepath.Join(t.TempDir(), "state")
	d := r.directory(dir, often) // there is no such folder
	start(t, d.Run)
	d.untilPlace(t, place)
	if got := d.state("k1"); got != "active" {
		t.Fatal(got)
	}
	until(t, d.changed, "fault told", func() bool { return d.Stats().Disk != "" })
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	until(t, d.changed, "fault over", func() bool { return d.Stats().Disk == "" })
	f, _, err := loadDirectory(directoryPath(dir))
	if err != nil || len(f.records) != 1 {
		t.Fatalf("file has %d records, %v", len(f.records), err)
	}
}

func TestJournal_OverflowAsksForTheWholeFile(t *testing.T) {
	t.Parallel()
	j := newJournal(true)
	big := policy.SignedRecord{Kind: policy.RecordKey, ID: "k1", Signer: "s", Body: bytes.Repeat([]byte("x"), 40<<10)}
	for range 200 {
		j.put(big)
	}
	if lines, n, anew := j.pending(); !anew || lines != nil || n != 0 {
		t.Fatalf("%d lines pending, anew %v", n, anew)
	}
	j.take()
	j.drop(recordID{policy.RecordKey, "k1"}, 4)
	if _, n, anew := j.pending(); anew || n != 1 {
		t.Fatalf("%d lines pending after the file was written, anew %v", n, anew)
	}
}

// TestDirectoryFile_ReplaysToWhatTheCacheHeld compares file and cache after
// random puts and drops.
func TestDirectoryFile_ReplaysToWhatTheCacheHeld(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var b bytes.Buffer
		if err := writeDirectory(&b, fileHead{Deployment: deployment}, nil); err != nil {
			t.Fatal(err)
		}
		j := newJournal(true)
		held := map[string]int64{}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			kid := rapid.SampledFrom([]string{"k1", "k2", "k3"}).Draw(t, "kid")
			if seq := rapid.Int64Range(0, 5).Draw(t, "seq"); seq > 0 {
				j.put(policy.SignedRecord{Kind: policy.RecordKey, ID: kid, Seq: seq, Signer: "s", Signature: []byte{1}, Body: []byte("{}")})
				held[kid] = seq
			} else {
				j.drop(recordID{policy.RecordKey, kid}, seq)
				delete(held, kid)
			}
		}
		lines, _, _ := j.pending()
		f, err := decodeDirectory(bytes.NewReader(append(b.Bytes(), lines...)), 0)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int64{}
		for _, rec := range f.records {
			got[rec.ID] = rec.Seq
		}
		if fmt.Sprint(got) != fmt.Sprint(held) {
			t.Fatalf("file says %v, cache held %v", got, held)
		}
	})
}
