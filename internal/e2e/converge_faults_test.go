package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	domain "github.com/headgate/headgate/console"
)

// step does one thing that happens in operation, or to it.
func (r *run) step() {
	n := r.replicas[r.rng.IntN(len(r.replicas))]
	acts := []struct {
		name   string
		weight int
		do     func()
	}{
		{"publish", 5, func() { r.publish(domain.PublishOptions{}) }},
		{"canary", 3, func() {
			r.publish(domain.PublishOptions{Canary: &domain.CanaryPlan{Count: 1 + r.rng.IntN(2), Hold: domain.MinHold}})
		}},
		{"promote", 2, func() { r.endCanary(r.rollouts.Promote) }},
		{"stop", 2, func() { r.endCanary(r.rollouts.Stop) }},
		{"cut " + n.id, 2, n.door.Cut},
		{"hole " + n.id, 1, n.door.Hole},
		{"delay " + n.id, 1, func() { n.door.Delay(time.Duration(r.rng.IntN(80)) * time.Millisecond) }},
		{"drop reply " + n.id, 1, n.door.DropReply},
		{"pass " + n.id, 3, n.door.Pass},
		{"cut console", 1, r.door.Cut},
		{"pass console", 2, r.door.Pass},
		{"sever console", 1, r.door.Sever},
		{"mute " + n.id, 2, func() { n.mute.Store(true) }},
		{"unmute " + n.id, 2, func() { n.mute.Store(false) }},
		{"restart " + n.id, 3, func() { n.kill(); n.start() }},
		{"disk away " + n.id, 2, n.loseDisk},
		{"disk back " + n.id, 2, n.findDisk},
		{"flush", 1, func() { r.admin.FlushAll(r.ctx) }},
		{"save", 2, r.save},
		{"rewind", 2, r.rewind},
		{"forge " + n.id, 2, func() { r.forge(n.id) }},
		{"replay " + n.id, 1, func() { r.replay(n.id) }},
		{"garble", 1, r.garble},
		{"kill pubsub", 1, func() { r.admin.Do(r.ctx, "CLIENT", "KILL", "TYPE", "pubsub") }},
		{"console starts", 1, func() { r.fleet() }},
		{"clock", 1, func() { r.ahead.Store(int64(r.rng.IntN(3)) * int64(4*time.Second)) }},
	}
	total := 0
	for _, a := range acts {
		total += a.weight
	}
	pick := r.rng.IntN(total)
	for _, a := range acts {
		if pick -= a.weight; pick < 0 {
			r.trail = append(r.trail, a.name)
			a.do()
			return
		}
	}
}

func (r *run) endCanary(end func(context.Context, domain.Actor, int64, string) (domain.Version, error)) {
	cur, err := r.rollouts.Current(r.ctx)
	if err != nil || cur == nil {
		return
	}
	_, err = end(r.ctx, domain.SystemActor(), cur.Version, "the schedule says so")
	if code := domain.CodeOf(err); err != nil && code != domain.CodeConflict && code != domain.CodeUnavailable {
		r.t.Errorf("end canary %d: %v", cur.Version, err)
	}
}

// save keeps what stands in Redis now, for a rewind.
func (r *run) save() {
	keys, err := r.admin.Keys(r.ctx, r.ns+":*").Result()
	if err != nil {
		return
	}
	r.saved = r.saved[:0]
	for _, k := range keys {
		if raw, err := r.admin.Dump(r.ctx, k).Result(); err == nil {
			r.saved = append(r.saved, k, raw)
		}
		if strings.HasPrefix(k, r.ns+":replica:gw_") {
			if raw, err := r.admin.Get(r.ctx, k).Result(); err == nil {
				r.beats = append(r.beats, k, raw)
			}
		}
	}
}

// rewind puts Redis back to what it was, as a failover to an old copy does.
func (r *run) rewind() {
	r.admin.FlushAll(r.ctx)
	for i := 0; i+1 < len(r.saved); i += 2 {
		r.admin.Do(r.ctx, "RESTORE", r.saved[i], 0, r.saved[i+1], "REPLACE")
	}
}

// forge acknowledges in a replica's name what it may not enforce, with a digest
// that is not the version's: whoever writes it does not know the document.
func (r *run) forge(id string) {
	head, _, err := r.policies.Head(r.ctx)
	if err != nil {
		return
	}
	version := head.Number + int64(r.rng.IntN(2))*1000
	beat := fmt.Sprintf(`{"id":%q,"boot":"forged","version":%d,"digest":"sha256:%064d"}`, id, version, 0)
	r.admin.Set(r.ctx, r.ns+":replica:"+id, beat, time.Hour)
	r.admin.ZAdd(r.ctx, r.ns+":replica:index", redis.Z{Score: float64(time.Now().UnixMilli()), Member: id})
}

// replay writes an old heartbeat of a replica again.
func (r *run) replay(id string) {
	for i := 0; i+1 < len(r.beats); i += 2 {
		if r.beats[i] == r.ns+":replica:"+id {
			r.admin.Set(r.ctx, r.beats[i], r.beats[i+1], time.Hour)
			return
		}
	}
}

// garble makes the newest body one that no replica can use.
func (r *run) garble() {
	if head, _, err := r.policies.Head(r.ctx); err == nil {
		r.admin.Set(r.ctx, fmt.Sprintf("%s:{policy}:body:%d", r.ns, head.Number), "{}", 0)
	}
}
