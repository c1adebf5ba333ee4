package main

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

const (
	// gatewayGOGC lets a gateway's heap grow to five times what is in use before garbage
	// is collected. Few megabytes are in use, and calls that come meanwhile wait longer:
	// collecting seldom is worth more to it than the memory is.
	gatewayGOGC = 400
	// limitedShare is the share, in percent, of the memory of a container that garbage
	// may not grow beyond.
	limitedShare = 85
	// memoryMax holds the container's memory limit (cgroup v2), in bytes or "max".
	memoryMax = "/sys/fs/cgroup/memory.max"
)

// collectSeldom sets how often this process collects garbage, where the environment
// does not say (GOGC, GOMEMLIMIT).
func collectSeldom() {
	percent, limit := seldom(os.Getenv, memoryMax)
	if percent > 0 {
		debug.SetGCPercent(percent)
	}
	if limit > 0 {
		debug.SetMemoryLimit(limit)
	}
}

// seldom is what to set; 0: nothing.
func seldom(env func(name string) string, limitFile string) (percent int, limit int64) {
	if env("GOGC") == "" {
		percent = gatewayGOGC
	}
	if env("GOMEMLIMIT") != "" {
		return percent, 0
	}
	text, err := os.ReadFile(limitFile)
	if err != nil { // no container, or one of another kind
		return percent, 0
	}
	most, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || most <= 0 { // "max"
		return percent, 0
	}
	return percent, most / 100 * limitedShare
}
