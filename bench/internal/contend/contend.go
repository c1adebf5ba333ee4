// Package contend has the limiters that are measured beside each other, each as a
// function that decides for one of a number of subjects.
//
// It imports limiter, limiter/redisstore, policy and internal/lab of headgate.
package contend

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate/bench/internal/meas"
)

// Subjects is how many subjects the decisions go round.
const Subjects = 1000

// Decide answers for one subject, 0 to Subjects-1, and makes one decision.
type Decide func(ctx context.Context, subject int) (admitted bool, err error)

// Op has callers go round the subjects, each from another one, in strides, so that
// they seldom meet.
func (d Decide) Op() meas.Op {
	return func(ctx context.Context, caller int, i uint64) (meas.Tally, error) {
		return d.one(ctx, int((i*7919+uint64(caller)*104729)%Subjects))
	}
}

// HotOp has all callers ask about one subject.
func (d Decide) HotOp() meas.Op {
	return func(ctx context.Context, _ int, _ uint64) (meas.Tally, error) { return d.one(ctx, 0) }
}

// HotMany makes n decisions about one subject in one operation: for those that are
// faster than the clock can be read.
func (d Decide) HotMany(n int) meas.Op {
	return func(ctx context.Context, _ int, _ uint64) (meas.Tally, error) {
		var sum meas.Tally
		for range n {
			t, err := d.one(ctx, 0)
			if err != nil {
				return sum, err
			}
			sum.Decisions++
			sum.Admitted += t.Admitted
		}
		return sum, nil
	}
}

// Many is HotMany round all subjects.
func (d Decide) Many(n int) meas.Op {
	return func(ctx context.Context, caller int, i uint64) (meas.Tally, error) {
		var sum meas.Tally
		for k := range n {
			t, err := d.one(ctx, int((i*uint64(n)+uint64(k))*7919+uint64(caller)*104729)%Subjects)
			if err != nil {
				return sum, err
			}
			sum.Decisions++
			sum.Admitted += t.Admitted
		}
		return sum, nil
	}
}

func (d Decide) one(ctx context.Context, subject int) (meas.Tally, error) {
	admitted, err := d(ctx, subject)
	if err != nil {
		return meas.Tally{}, err
	}
	t := meas.Tally{Decisions: 1}
	if admitted {
		t.Admitted = 1
	}
	return t, nil
}

// names are the subjects' names with a suffix, made beforehand so that no
// contender pays for them.
func names(suffix string) []string {
	all := make([]string, Subjects)
	for i := range all {
		all[i] = fmt.Sprintf("ten_%05d%s", i, suffix)
	}
	return all
}

// Ping is the floor of the client: a command that does nothing.
func Ping(client *redis.Client) Decide {
	return func(ctx context.Context, _ int) (bool, error) { return true, client.Ping(ctx).Err() }
}

// BareScript is the floor of scripts: one key, nothing done.
func BareScript(ctx context.Context, client *redis.Client) (Decide, error) {
	sha, err := client.ScriptLoad(ctx, "return 1").Result()
	if err != nil {
		return nil, fmt.Errorf("load a script: %w", err)
	}
	keys := names("")
	return func(ctx context.Context, subject int) (bool, error) {
		return true, client.EvalSha(ctx, sha, keys[subject:subject+1]).Err()
	}, nil
}

// Replay makes the same recorded call again and again, each by itself: what a
// script costs without combining.
func Replay(client *redis.Client, args []any) Decide {
	return func(ctx context.Context, _ int) (bool, error) { return true, client.Do(ctx, args...).Err() }
}
