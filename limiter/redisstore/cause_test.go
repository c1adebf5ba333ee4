package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/redisstore"
	"github.com/headgate/headgate/limiter/storetest"
	"github.com/headgate/headgate/policy"
)

var small = policy.Numbers{Tokens: 1, Period: 1_000_000, Burst: 5}

func one(limit string) *limiter.Draw {
	return &limiter.Draw{Charges: []limiter.Charge{storetest.Draw(storetest.Tenant("ten_a"), limit, small, 1)}}
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// TestLimiter_R046_OddRepliesAreFailures: whatever Redis says that is not the
// answer asked for, it is an error with a label, and the fail mode decides.
func TestLimiter_R046_OddRepliesAreFailures(t *testing.T) {
	t.Parallel()
	good := strings.Repeat("\x01\x00\x00\x00\x00\x00\x00\x00", 1) + "\x01" + strings.Repeat("\x00", 16)
	for _, c := range []struct{ name, answer, cause string }{
		{"loading", "-LOADING Redis is loading the dataset in memory\r\n", "loading"},
		{"masterdown", "-MASTERDOWN Link with MASTER is down\r\n", "masterdown"},
		{"busy", "-BUSY Redis is busy running a script\r\n", "busy"},
		{"tryagain", "-TRYAGAIN Multiple keys request during rehashing of slot\r\n", "tryagain"},
		{"clusterdown", "-CLUSTERDOWN The cluster is down\r\n", "clusterdown"},
		{"oom", "-OOM command not allowed when used memory > 'maxmemory'.\r\n", "oom"},
		{"misconf", "-MISCONF Redis is configured to save RDB snapshots\r\n", "misconf"},
		{"noreplicas", "-NOREPLICAS Not enough good replicas to write.\r\n", "noreplicas"},
		{"noperm", "-NOPERM this user has no permissions to run the 'evalsha' command\r\n", "auth"},
		{"noauth", "-NOAUTH Authentication required.\r\n", "auth"},
		{"wrongpass", "-WRONGPASS invalid username-password pair\r\n", "auth"},
		{"wrongtype", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", "wrongtype"},
		{"readonly", "-READONLY You can't write against a read only replica.\r\n", "readonly"},
		{"maxclients", "-ERR max number of clients reached\r\n", "maxclients"},
		{"script error", "-ERR user_script:4: attempt to index a nil value script: 0123\r\n", "script"},
		{"noscript for ever", "-NOSCRIPT No matching script. Please use EVAL.\r\n", "script"},
		{"nil", "$-1\r\n", "reply"},
		{"status", "+OK\r\n", "reply"},
		{"integer", ":1\r\n", "reply"},
		{"empty string", bulk(""), "reply"},
		{"too short", bulk(good[:len(good)-1]), "reply"},
		{"too long", bulk(good + "\x00"), "reply"},
		{"array of two instead of a string", "*2\r\n:1\r\n:2\r\n", "reply"},
		{"unknown status", bulk(good[:8] + "\x03" + good[9:]), "reply"},
		{"number beyond 2^53", bulk(good[:9] + strings.Repeat("\x7f", 16)), "reply"},
		{"time beyond 2^53", bulk(strings.Repeat("\xff", 8) + good[8:]), "reply"},
		{"row of another type", bulk(good[:8] + "\x02" + good[9:]), "wrongtype"},
		{"not RESP", "HTTP/1.1 400 Bad Request\r\n\r\n", "other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := redisstore.New(patient(t, newFakeRedis(t, c.answer).url()), options)
			_, err := store.Take(context.Background(), one("l"))
			if !errors.Is(err, limiter.ErrStore) || redisstore.Cause(err) != c.cause {
				t.Errorf("take: %v (%s), want cause %s", err, redisstore.Cause(err), c.cause)
			}
			if err := store.Ping(context.Background()); !errors.Is(err, limiter.ErrStore) {
				t.Errorf("ping: %v, want ErrStore", err)
			}
			l := limiterOn(t, store, time.Now)
			d := l.Decide(context.Background(), limiter.Request{Route: "r", Draw: *one("l"), Fail: closed})
			if d.Allowed || !d.Degraded || d.Reason != limiter.ReasonClosed || d.Levels != nil {
				t.Errorf("decision: %+v", d)
			}
		})
	}
	t.Run("the good answer is one", func(t *testing.T) {
		t.Parallel()
		store := redisstore.New(patient(t, newFakeRedis(t, bulk(good)).url()), options)
		if out, err := store.Take(context.Background(), one("l")); err != nil || !out.Admitted || out.NowMicros != 1 {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

func TestCause_NamesFailuresOfTheNetwork(t *testing.T) {
	t.Parallel()
	nobody := redisstore.New(clientTo(t, "redis://127.0.0.1:1/0"), options)
	_, err := nobody.Take(context.Background(), one("l"))
	if got := redisstore.Cause(err); got != "down" {
		t.Errorf("nobody listens: %s (%v)", got, err)
	}
	silent := redisstore.New(patient(t, newFakeRedis(t, "").url()), options)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = silent.Take(ctx, one("l"))
	if got := redisstore.Cause(err); got != "hang" {
		t.Errorf("no answer: %s (%v)", got, err)
	}
	if got := redisstore.Cause(errors.New("surprise")); got != "other" {
		t.Errorf("anything else: %s", got)
	}
}

// TestScript_IsSentOnceAndReplayedOnlyOnNoScript counts what goes to Redis.
func TestScript_IsSentOnceAndReplayedOnlyOnNoScript(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"-NOSCRIPT No matching script.\r\n": "[EVALSHA SCRIPT EVALSHA]",
		"-LOADING soon\r\n":                 "[EVALSHA]",
		"-READONLY no\r\n":                  "[EVALSHA]",
		"$-1\r\n":                           "[EVALSHA]",
	} {
		fake := newFakeRedis(t, answer)
		store := redisstore.New(patient(t, fake.url()), options)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_, err := store.Take(ctx, one("l"))
		cancel()
		if err == nil {
			t.Errorf("%q: no error", answer)
		}
		if got := fmt.Sprint(fake.commands()); got != want {
			t.Errorf("%q: sent %s, want %s", answer, got, want)
		}
	}
}
