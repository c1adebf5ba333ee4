package suite

import (
	"fmt"
	"strings"
)

// howto is the part of the document that does not come from a run.
const howto = `# Benchmarks

` + "`make bench`" + ` measures the limiter beside its peers and writes this file. Absolute figures move with the machine: what counts are ratios inside one run. So all
cases run on one private Redis over loopback TCP, in short rounds that take turns; every figure is the median over the rounds, every ratio the median of
the ratios of rounds that ran close together. Nothing here decides whether a test passes.

How to read it:

- **decisions/s** with 64 callers in closed loops unless the name says otherwise. Server, Redis and callers share the machine's processors.
- **p50, p99** of one decision as its caller sees it; "–" where decisions are faster than the clock can be read.
- **Redis CPU** and **own CPU** are the processor time of the Redis process and of this one per decision, from /proc; allocations and script calls are per decision too.
- headgate's decisions go through the engine as a gateway's do (` + "`limiter.Limiter` on `limiter/redisstore`" + `), only with a budget that no busy machine exceeds. A decision made without Redis counts as a failure.
- Peers get a pool with one connection for each caller. "GOGC=400" is the same with fewer garbage collections, because a gateway may be tuned too.
- "One call each" replays the very call that headgate's store makes for the hot key, without combining.
- While hot keys are measured, everything that is admitted is held against burst + rate × time by Redis' clock; a run in which that is exceeded fails. The rows "far over
  its limit" ask for much more than there is: what they admit must be the limit, neither more nor noticeably less. While replicas take slices, 50 ms of the rate are left out of the
  burst, so that the limit holds although a token is spent a little after it was taken: the share of a leased limit is that of the remaining burst + rate × time.
- throttled's four calls fail at the key that everybody draws from: it compares and swaps, and gives up after ten attempts. sethvargo/go-limiter's Redis store is for another client, so its row counts in its own memory and shares nothing.
`

// Markdown is the document.
func (r *Report) Markdown() string {
	var b strings.Builder
	b.WriteString(howto)
	fmt.Fprintf(&b, "\n## Latest run\n\n%s. %s. Redis %s. %s.\n\n%s\n\n", r.Date.Format("2006-01-02 15:04 MST"), r.Machine, r.Redis, strings.Join(versions(), ", "), r.remarks())
	for _, t := range r.tables() {
		fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(t[0], " | "), strings.Repeat("---|", len(t[0])))
		for _, row := range t[1:] {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		}
		b.WriteString("\n")
	}
	if failures := r.failures(); failures != "" {
		b.WriteString(failures)
	}
	return b.String()
}
