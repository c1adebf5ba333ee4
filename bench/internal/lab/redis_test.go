package lab

import (
	"context"
	"reflect"
	"testing"
	"time"
)

func start(t *testing.T) *Redis {
	t.Helper()
	r, err := Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	return r
}

func TestRedis_TellsWhatItDid(t *testing.T) {
	t.Parallel()
	r := start(t)
	ctx := t.Context()
	if r.Version(ctx) == "" || r.PID() == 0 {
		t.Errorf("version %q, process %d", r.Version(ctx), r.PID())
	}
	if now, err := r.Now(ctx); err != nil || time.Since(now).Abs() > time.Hour {
		t.Errorf("its clock says %v, %v", now, err)
	}
	for range 3 {
		if err := r.Client.Eval(ctx, "return redis.call('SET', KEYS[1], ARGV[1])", []string{"k"}, make([]byte, 1<<20)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if calls, err := r.ScriptCalls(ctx); err != nil || calls != 3 {
		t.Errorf("%d script calls, %v", calls, err)
	}
	full, err := r.Memory(ctx)
	if err != nil || full < 1<<20 {
		t.Errorf("memory is %d, %v", full, err)
	}
	if err := r.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if empty, err := r.Memory(ctx); err != nil || full-empty < 1<<20 {
		t.Errorf("memory went from %d to %d, %v", full, empty, err)
	}
}

func TestRedis_RecordsACallAsItArrives(t *testing.T) {
	t.Parallel()
	r := start(t)
	sha := r.Client.ScriptLoad(t.Context(), "return ARGV[1]").Val()
	binary := "a \"quoted\" \x00\xff\n\\ end"
	args, err := r.Record(t.Context(), func() error {
		if err := r.Client.Ping(t.Context()).Err(); err != nil {
			return err
		}
		return r.Client.EvalSha(t.Context(), sha, []string{"key"}, binary).Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []any{"evalsha", sha, "1", "key", binary}; !reflect.DeepEqual(args, want) {
		t.Errorf("recorded %q, want %q", args, want)
	}
	if got := r.Client.Do(t.Context(), args...).Val(); got != binary {
		t.Errorf("the recorded call returns %q", got)
	}
}

func TestRedis_RecordTellsWhatTheCallSays(t *testing.T) {
	t.Parallel()
	r := start(t)
	if _, err := r.Record(t.Context(), func() error { return context.DeadlineExceeded }); err == nil {
		t.Error("a failed call was recorded")
	}
}

func TestField_ReadsOneNumber(t *testing.T) {
	t.Parallel()
	const text = "# Memory\r\nused_memory:1234\r\nused_memory_rss:99\r\ncmdstat_evalsha:calls=7,usec=9\r\nlast:5"
	for name, want := range map[string]int64{"used_memory:": 1234, "cmdstat_evalsha:calls=": 7, "last:": 5, "missing:": 0, "memory:": 0} {
		if got, err := field(text, name); err != nil || got != want {
			t.Errorf("%s is %d, %v, want %d", name, got, err, want)
		}
	}
	if got, err := field("\nx:99999999999999999999", "x:"); err == nil {
		t.Errorf("a number beyond 64 bits is %d", got)
	}
	if got, err := field("\nx:many", "x:"); err == nil {
		t.Errorf("a word is %d", got)
	}
}

func FuzzParseMonitor(f *testing.F) {
	f.Add(`+1.5 [0 127.0.0.1:6] "SET" "k" "a\x00b"`)
	f.Add(`+OK`)
	f.Add(`+1.5 [0 lua] "GET" "`)
	f.Fuzz(func(t *testing.T, line string) {
		args, err := parseMonitor(line)
		if err == nil && len(args) == 0 {
			t.Errorf("%q has no command", line)
		}
	})
}
