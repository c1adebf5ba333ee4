package meas

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of the times in /proc, which Linux fixes for programs.
const tick = 10 * time.Millisecond

// CPU is the processor time, user and system, that a process has used so far.
func CPU(pid int) (time.Duration, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, fmt.Errorf("read CPU of process %d: %w", pid, err)
	}
	return parseStat(string(b))
}

// parseStat reads the fields utime and stime, 14 and 15, of proc_pid_stat(5). The
// name before them stands in brackets and may hold anything.
func parseStat(text string) (time.Duration, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("stat of a process has %d fields after its name, want at least 13", len(fields))
	}
	var sum time.Duration
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("stat of a process: %w", err)
		}
		sum += time.Duration(ticks) * tick
	}
	return sum, nil
}

// Busy is the processor time that the whole machine has used so far, or lost to
// its host.
func Busy() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("read CPU of the machine: %w", err)
	}
	return parseBusy(string(b))
}

// parseBusy adds up the first line of proc_stat(5) without idle and iowait, and
// without guest times, which are in the others.
func parseBusy(text string) (time.Duration, error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("CPU of the machine: want 8 times, got %q", line)
	}
	var sum time.Duration
	for i, field := range fields[1:9] {
		if i == 3 || i == 4 {
			continue
		}
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("CPU of the machine: %w", err)
		}
		sum += time.Duration(ticks) * tick
	}
	return sum, nil
}
