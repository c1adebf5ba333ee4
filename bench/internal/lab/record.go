package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// Record returns the arguments of the first script call that do makes, as they
// reach the server.
func (r *Redis) Record(ctx context.Context, do func() error) ([]any, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", r.server.Addr)
	if err != nil {
		return nil, fmt.Errorf("watch Redis: %w", err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		return nil, fmt.Errorf("watch Redis: %w", err)
	}
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() || lines.Text() != "+OK" {
		return nil, fmt.Errorf("watch Redis: %q %w", lines.Text(), lines.Err())
	}
	if err := do(); err != nil {
		return nil, err
	}
	for lines.Scan() {
		if args, err := parseMonitor(lines.Text()); err == nil && strings.EqualFold(args[0].(string), "evalsha") {
			return args, nil
		}
	}
	return nil, fmt.Errorf("no script call seen: %w", lines.Err())
}

var errMonitor = errors.New("not a line of MONITOR")

// parseMonitor reads a line such as: +1.5 [0 127.0.0.1:6] "SET" "k" "a\x00b".
func parseMonitor(line string) ([]any, error) {
	_, rest, found := strings.Cut(line, "] ")
	if !found {
		return nil, errMonitor
	}
	var args []any
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimLeft(rest, " ") {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil || quoted[0] != '"' {
			return nil, errMonitor
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, errMonitor
		}
		args, rest = append(args, arg), rest[len(quoted):]
	}
	if len(args) == 0 {
		return nil, errMonitor
	}
	return args, nil
}
