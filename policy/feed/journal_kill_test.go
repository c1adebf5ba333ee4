package feed

import (
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/policy"
)

// TestDirectoryFile_I10_HoldsARevocationBeforeItIsConfirmed: a kill at that moment,
// and a start without Redis, must not bring the key back.
func TestDirectoryFile_I10_HoldsARevocationBeforeItIsConfirmed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := t.TempDir()
	var confirmed atomic.Int64 // place from which on the file is looked at
	var looked, there atomic.Int64
	var d looking
	d = r.directory(dir, often, func(c *DirectoryConfig) {
		told := c.OnChange
		c.OnChange = func() {
			if from := confirmed.Load(); from > 0 && d.Place().Seq >= from {
				looked.Add(1)
				f, _, err := loadDirectory(directoryPath(dir))
				if err != nil || len(f.records) > 0 {
					there.Add(1)
				}
			}
			told()
		}
	})
	place := r.fill("e1", r.keyRecord("k1", 1, policy.KeyActive))
	start(t, d.Run)
	d.untilPlace(t, place)
	for seq := int64(1); seq < 20; seq += 2 {
		if got := d.state("k1"); got != "active" {
			t.Fatal(got)
		}
		until(t, d.changed, "on disk", func() bool {
			f, _, err := loadDirectory(directoryPath(dir))
			return err == nil && len(f.records) == 1
		})
		confirmed.Store(place.Seq + 1)
		place = r.put(r.keyRecord("k1", seq+1, policy.KeySuspended))
		d.untilPlace(t, place)
		confirmed.Store(0)
		place = r.put(r.keyRecord("k1", seq+2, policy.KeyActive))
		d.untilPlace(t, place)
	}
	if looked.Load() < 10 || there.Load() > 0 {
		t.Fatalf("%d of %d times the key is still there", there.Load(), looked.Load())
	}
}
