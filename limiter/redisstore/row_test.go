package redisstore_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/testkit"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/limiter/storetest"
	"github.com/headgate/headgate/policy"
)

// rig is a Redis of its own with a store by a virtual and one by its own clock.
type rig struct {
	server  *testkit.RedisServer
	client  *redis.Client
	clock   *storetest.Manual
	virtual *redisstore.Store
	real    *redisstore.Store
}

func newRig(t testing.TB) rig {
	t.Helper()
	server := testkit.Redis(t)
	client, clock := patient(t, server.URL), storetest.NewManual()
	return rig{server, client, clock, redisstore.NewVirtual(client, options, clock.Now), redisstore.New(client, options)}
}

func take(t testing.TB, s limiter.Store, charges ...limiter.Charge) limiter.Outcome {
	t.Helper()
	out, err := s.Take(context.Background(), &limiter.Draw{Charges: charges})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var tenant = storetest.Tenant("ten_a")

// draw is a draw of charges alone.
func draw(charges ...limiter.Charge) *limiter.Draw { return &limiter.Draw{Charges: charges} }

// row is the key of the tenant's row.
func (r rig) row() string { return r.real.RowKey(tenant) }

func (r rig) plant(t tb, value string, ttl time.Duration) {
	t.Helper()
	if err := r.client.Set(context.Background(), r.row(), value, ttl).Err(); err != nil {
		t.Fatal(err)
	}
}

func (r rig) value(t tb) string {
	t.Helper()
	value, err := r.client.Get(context.Background(), r.row()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func (r rig) ttl(t tb, key string) time.Duration {
	t.Helper()
	ttl, err := r.client.PTTL(context.Background(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return ttl
}

func TestRow_IsLaidOutAsDocumented(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	charge := storetest.Draw(tenant, "l", policy.Numbers{Tokens: 0x0102030405, Period: 1_000_000, Burst: 0x0708}, 0x08)
	charge.Hash = 0x1122334455667788
	take(t, r.virtual, charge)
	level := int64(0x0700 * 1_000_000)
	want := "01" + // layout: the numbers do not all fit the short one
		"8877665544332211" + // limit
		"050403020100" + // tokens
		"40420f000000" + // period
		"080700000000" + // burst
		little(level, 7) + little(r.clock.Now(), 7)
	if got := hex.EncodeToString([]byte(r.value(t))); got != want {
		t.Errorf("row\n%s, want\n%s", got, want)
	}
}

func little(v int64, bytes int) string {
	text := ""
	for range bytes {
		text += fmt.Sprintf("%02x", byte(v))
		v >>= 8
	}
	return text
}

// short is one bucket's record in a row of short records, which begins with 2.
func short(n policy.Numbers, level, micros int64) string {
	hash := int64(storetest.Draw(tenant, "l", n, 1).Hash)
	text, err := hex.DecodeString(little(hash, 8) + little(n.Tokens, 1) + little(n.Period, 4) + little(n.Burst, 2) +
		little(level, 5) + little(micros, 7))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// record is one bucket's record, for the limit that Draw calls "l", in a row that
// begins with 1.
func record(n policy.Numbers, level, micros int64) string {
	hash := int64(storetest.Draw(tenant, "l", n, 1).Hash)
	text, err := hex.DecodeString(little(hash, 8) + little(n.Tokens, 6) + little(n.Period, 6) + little(n.Burst, 6) +
		little(level, 7) + little(micros, 7))
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestRow_WhatCannotBeARowIsAbsentAndOverwritten(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	now := r.clock.Now()
	empty := record(small, 0, now)
	for name, value := range map[string]string{
		"counter of another program": "999",
		"unknown layout":             "\x03" + empty,
		"cut":                        "\x01" + empty[:39],
		"one byte more":              "\x01" + empty + "x",
		"no tokens":                  "\x01" + record(policy.Numbers{Period: 1000, Burst: 5}, 0, now),
		"no period":                  "\x01" + record(policy.Numbers{Tokens: 1, Burst: 5}, 0, now),
		"no burst":                   "\x01" + record(policy.Numbers{Tokens: 1, Period: 1000}, 0, now),
		"numbers beyond 2^53":        "\x01" + record(policy.Numbers{Tokens: 1, Period: 1 << 41, Burst: 1 << 13}, 0, now),
		"period beyond a month":      "\x01" + record(policy.Numbers{Tokens: 1, Period: 1 << 42, Burst: 1}, 0, now),
		"level beyond the burst":     "\x01" + record(small, small.Full()+1, now),
	} {
		r.plant(t, value, 0)
		out := take(t, r.virtual, storetest.Draw(tenant, "l", small, 1))
		if !out.Admitted || out.Levels[0].Units != small.Full()-small.Period {
			t.Errorf("%s: %+v, want a full bucket less one", name, out)
		}
		if got := r.value(t); got != "\x02"+short(small, small.Full()-small.Period, now) {
			t.Errorf("%s: row %x afterwards", name, got)
		}
	}
	r.plant(t, "\x01"+empty+record(small, small.Full(), now), 0)
	if out := take(t, r.virtual, storetest.Draw(tenant, "l", small, 1)); out.Admitted {
		t.Errorf("a second record of a limit counts: %+v", out)
	}
}

// TestRow_OfAnotherTypeFailsItsOwnRequestsOnly: requests that were combined with
// it into one call are decided.
func TestRow_OfAnotherTypeFailsItsOwnRequestsOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.client.LPush(context.Background(), r.row(), "x").Err(); err != nil {
		t.Fatal(err)
	}
	other := storetest.Tenant("ten_b")
	outs, errs := r.virtual.TakeAll(context.Background(), []*limiter.Draw{
		draw(storetest.Draw(other, "l", small, 1)),
		draw(storetest.Draw(other, "l", small, 1), storetest.Draw(tenant, "l", small, 1)),
		draw(storetest.Draw(other, "l", small, 1)),
	})
	if errs[0] != nil || redisstore.Cause(errs[1]) != "wrongtype" || errs[2] != nil {
		t.Fatalf("errors %v", errs)
	}
	if !errors.Is(errs[1], limiter.ErrRow) {
		t.Errorf("%v does not say that the store is well", errs[1])
	}
	if left := outs[2].Levels[0].Remaining(small); !outs[0].Admitted || !outs[2].Admitted || left != 3 {
		t.Errorf("%+v, want two admitted and nothing spent by the one that failed", outs)
	}
}

func TestRow_ARefusalWritesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	take(t, r.virtual, storetest.Draw(tenant, "l", small, 5))
	before := r.value(t)
	if err := r.client.PExpire(context.Background(), r.row(), time.Hour/2).Err(); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(time.Millisecond)
	if take(t, r.virtual, storetest.Draw(tenant, "l", small, 1), storetest.Draw(tenant, "m", small, 1)).Admitted {
		t.Fatal("admitted")
	}
	if r.value(t) != before || r.ttl(t, r.row()) > time.Hour/2 {
		t.Error("the refusal wrote the row")
	}
}

func TestRow_FullBucketsAreLeftOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 20 {
		take(t, r.virtual, storetest.Draw(tenant, fmt.Sprint("l", i), small, 1))
	}
	if got := len(r.value(t)); got != 1+20*27 {
		t.Fatalf("%d bytes for 20 buckets", got)
	}
	r.clock.Advance(time.Minute)
	take(t, r.virtual, storetest.Draw(tenant, "l", small, 1))
	if got := len(r.value(t)); got != 1+27 {
		t.Errorf("%d bytes although one bucket is in use", got)
	}
}

// TestRow_AnyBytesAreARowOrAbsent: whatever lies in a row's place, the script
// decides, and leaves something that it can decide on.
func TestRow_AnyBytesAreARowOrAbsent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	fields := rapid.Int64Range(0, 1<<48-1)
	anyRecord := rapid.Custom(func(t *rapid.T) string {
		n := policy.Numbers{Tokens: fields.Draw(t, "tokens"), Period: fields.Draw(t, "period"), Burst: fields.Draw(t, "burst")}
		return record(n, rapid.Int64Range(0, 1<<56-1).Draw(t, "level"), rapid.Int64Range(0, 1<<56-1).Draw(t, "time"))
	})
	rapid.Check(t, func(rt *rapid.T) {
		value := "\x01" + string(rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(rt, "bytes"))
		if rapid.Bool().Draw(rt, "records") {
			value = "\x01" + anyRecord.Draw(rt, "first") + anyRecord.Draw(rt, "second")
		}
		r.plant(rt, value, 0)
		for range 2 {
			out, err := r.virtual.Take(context.Background(), &limiter.Draw{Charges: []limiter.Charge{storetest.Draw(tenant, "l", small, 1)}})
			if err != nil || out.Levels[0].Units > small.Full() || out.Levels[0].WaitMicros > small.Period {
				rt.Fatalf("%x: %+v, %v", value, out, err)
			}
		}
		if after := r.value(rt); after[0] == 1 && len(after)%40 != 1 || after[0] == 2 && len(after)%27 != 1 || after[0] > 2 || r.ttl(rt, r.row()) < 0 {
			rt.Fatalf("%x left %x", value, after)
		}
	})
}

// tb is what testing.TB and rapid.T have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
}
