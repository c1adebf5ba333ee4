package redisstore

import (
	"context"
	"errors"
	"io"
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
	{"MASTERDOWN", "masterdown"},
	{"CLUSTERDOWN", "clusterdown"},
	{"TRYAGAIN", "tryagain"},
	{"OOM", "oom"},
	{"BUSY", "busy"},
	{"MISCONF", "misconf"},
	{"NOREPLICAS", "noreplicas"},
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

// Cause names the kind of a Store's error, for metrics and alarms: down (nobody
// listens, or the connection was lost), hang (no answer in time), readonly,
// loading, masterdown, clusterdown, tryagain (a slot is being moved), oom, busy,
// misconf, noreplicas, maxclients, auth, script, wrongtype, reply (an answer of
// another shape) or other.
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
	case errors.As(err, &answer) && strings.Contains(answer.Error(), "script"):
		return "script"
	case lost(err):
		return "down"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted),
		errors.As(err, &network) && network.Timeout():
		return "hang"
	}
	return "other"
}

// lost: the server is not there, or hung up.
func lost(err error) bool {
	for _, sign := range []error{
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ENOENT,
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, errPaused,
	} {
		if errors.Is(err, sign) {
			return true
		}
	}
	var name *net.DNSError
	return errors.As(err, &name)
}
