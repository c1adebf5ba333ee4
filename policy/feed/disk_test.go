package feed

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/policy"
)

// saved runs a watcher until it has a version and stops it again.
func (r *rig) saved(t *testing.T, dir string, version int64) {
	t.Helper()
	w := r.watcher(dir, often)
	stop := start(t, w.Run)
	w.untilVersion(t, version)
	stop()
	if s := w.Status(); s.Disk != "" {
		t.Fatalf("disk: %s", s.Disk)
	}
}

func TestDisk_ARestartWithoutRedisEnforcesTheLastGoodCopy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.publish(7, 60)
	dir := t.TempDir()
	first := r.watcher(dir, often)
	stop := start(t, first.Run)
	first.untilVersion(t, 7)
	stop()
	r.redis.Kill()
	w := r.watcher(dir, often)
	c := w.Current()
	if c == nil || c.Version != 7 || c.Digest != p.Digest || c.Compiled == nil || !c.Since.Equal(first.Current().Since) {
		t.Fatalf("snapshot after a restart is %+v", c)
	}
	start(t, w.Run)
	until(t, w.changed, "outage noticed", func() bool { return !w.Status().Reachable })
	if s := w.Status(); s.Version != 7 || s.NACK != nil || s.HighWater != 7 || s.Disk != "" {
		t.Fatalf("status is %+v", s)
	}
}

func TestDisk_ARestartDoesNotGoBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	old := r.publish(5, 60)
	r.publish(9, 61)
	dir := t.TempDir()
	r.saved(t, dir, 9)
	r.writeRaw(old, nil) // byte for byte as it once stood there
	w := r.watcher(dir, often)
	start(t, w.Run)
	w.untilNACK(t, policy.NACKWentBack)
	if w.version() != 9 {
		t.Fatalf("version %d is in force", w.version())
	}
}

func TestDisk_TheMarkHoldsWhenTheCopyIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	old := r.publish(5, 60)
	r.publish(9, 61)
	dir := t.TempDir()
	r.saved(t, dir, 9)
	if err := os.Remove(filepath.Join(dir, policyFile)); err != nil {
		t.Fatal(err)
	}
	for name, offer := range map[string]struct {
		p    policy.SignedPolicy
		code string
	}{
		"lower version":           {old, policy.NACKWentBack},
		"same version, otherwise": {r.signed(9, 62), policy.NACKConflict},
	} {
		r.writeRaw(offer.p, nil)
		w := r.watcher(dir, often)
		stop := start(t, w.Run)
		w.untilNACK(t, offer.code)
		if w.Current() != nil {
			t.Errorf("%s: version %d is in force", name, w.version())
		}
		stop()
	}
	r.writeRaw(r.signed(9, 61), nil)
	w := r.watcher(dir, often)
	start(t, w.Run)
	w.untilVersion(t, 9)
}

func TestDisk_AnOlderCopyThanTheMarkIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.publish(5, 60)
	dir := t.TempDir()
	r.saved(t, dir, 5)
	old, err := os.ReadFile(filepath.Join(dir, policyFile))
	if err != nil {
		t.Fatal(err)
	}
	r.publish(6, 61)
	r.saved(t, dir, 6)
	if err := os.WriteFile(filepath.Join(dir, policyFile), old, 0o600); err != nil {
		t.Fatal(err)
	}
	w := r.watcher(dir, rarely)
	if s := w.Status(); w.Current() != nil || s.NACK == nil || s.NACK.Code != policy.NACKWentBack {
		t.Fatalf("status is %+v", s)
	}
}

// TestDisk_WhatIsTornIsReportedAndTreatedAsAbsent cuts and flips the copy.
func TestDisk_WhatIsTornIsReportedAndTreatedAsAbsent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.publish(5, 60)
	dir := t.TempDir()
	r.saved(t, dir, 5)
	path := filepath.Join(dir, policyFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"empty": {}, "half": whole[:len(whole)/2], "one byte short": whole[:len(whole)-1], "zeros": make([]byte, 4096),
		"not ours": []byte(`[1,2]`), "huge": bytes.Repeat([]byte("x"), maxPolicyFile+1),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		w := r.watcher(dir, often)
		if s := w.Status(); w.Current() != nil || s.Disk == "" || s.HighWater != 5 {
			t.Errorf("%s: status is %+v", name, s)
		}
		stop := start(t, w.Run)
		w.untilVersion(t, 5)
		stop()
		if s := w.Status(); s.Disk != "" {
			t.Errorf("%s: still reported after a good copy was saved: %s", name, s.Disk)
		}
	}
}

func TestDisk_ACopyThatWasTamperedWithIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.publish(5, 60)
	dir := t.TempDir()
	r.saved(t, dir, 5)
	path := filepath.Join(dir, policyFile)
	var good policyCopy
	if err := readJSON(path, maxPolicyFile, &good); err != nil {
		t.Fatal(err)
	}
	for code, harm := range map[string]func(*policyCopy){
		policy.NACKBadDigest:    func(c *policyCopy) { c.Body = document(1e6) },
		policy.NACKBadSignature: func(c *policyCopy) { c.Version = 6 },
		policy.NACKMissingBody:  func(c *policyCopy) { c.Body = nil },
		policy.NACKConflict:     func(c *policyCopy) { c.Body, c.Digest = document(1e6), policy.DigestOf(document(1e6)) },
	} {
		c := good
		harm(&c)
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		s := r.watcher(dir, rarely).Status()
		if s.Version != 0 || s.NACK == nil || s.NACK.Code != code || !strings.Contains(s.Disk, code) {
			t.Errorf("%s: status is %+v, NACK %+v", code, s, s.NACK)
		}
	}
}

func TestDisk_FilesAreForTheOwnerAloneAndNoneIsLeftOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := t.TempDir()
	for version := int64(1); version <= 3; version++ {
		r.publish(version, int(version))
		r.saved(t, dir, version)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 || strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
	if len(entries) != 2 {
		t.Errorf("%d files: %v", len(entries), entries)
	}
}

func TestDisk_ASaveThatComesLateDoesNotReplaceANewerOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := newPolicyDisk(t.TempDir())
	for _, version := range []int64{8, 7} {
		if err := d.save(copyOf(r.signed(version, 60), time.Now())); err != nil {
			t.Fatal(err)
		}
	}
	s, err := d.load()
	if err != nil || s.copy.Version != 8 || s.mark.Version != 8 {
		t.Fatalf("loaded %+v, %v", s, err)
	}
}
