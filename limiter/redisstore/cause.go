package redisstore

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// causes names Redis' errors by what they begin with, after "ERR ".
//
//nolint:gochecknoglobals // a table that nothing writes to
var causes = [...]struct{ prefix, cause string }{
	{"READONLY", "readonly"},
	{"LOADING", "loading"},
	{"MASTERDOWN", "loading"},
	{"OOM", "oom"},
	{"BUSY", "busy"},
	{"MISCONF", "misconf"},
	{"NOREPLICAS", "misconf"},
	{"NOAUTH", "auth"},
	{"WRONGPASS", "auth"},
	{"NOPERM", "auth"},
	{"NOSCRIPT", "script"},
	{"WRONGTYPE", "wrongtype"},
	{"max number of clients", "maxclients"},
	{"Error running script", "script"},
	{"user_script", "script"},
	{"Error compiling script", "script"},
}

// Cause names the kind of a Store's error, for metrics and alarms: timeout,
// refused, readonly, loading, oom, busy, misconf, maxclients, auth, script,
// wrongtype, reply (an answer of another shape) or other.
func Cause(err error) string {
	for _, c := range causes {
		if redis.HasErrorPrefix(err, c.prefix) {
			return c.cause
		}
	}
	var network net.Error
	var answer redis.Error
	switch {
	case errors.Is(err, errReply), errors.Is(err, redis.Nil):
		return "reply"
	case errors.Is(err, errRow):
		return "wrongtype"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted),
		errors.As(err, &network) && network.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.As(err, &answer) && strings.Contains(answer.Error(), "script"):
		return "script"
	}
	return "other"
}
