package suite

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/headgate/headgate/bench/internal/meas"
)

// Report is what came out.
type Report struct {
	Date    time.Time
	Took    time.Duration
	Machine string
	Redis   string // version
	Options Options
	Cases   []*meas.Result // in the order of the table
	Memory  *Memory
	Targets []Target
}

// columns of the table of cases.
const columns = "case | decisions/s | p50 | p99 | Redis CPU | own CPU | allocations | script calls"

// cells are a case's figures; CPU, allocations and calls are per decision.
func cells(r *meas.Result) []string {
	latency := func(q float64) string {
		if r.Rounds[0].Latency.Count() < r.Rounds[0].Decisions {
			return "–" // an operation was several decisions
		}
		return micros(r.Quantile(q))
	}
	return []string{
		r.Case.Name, perSecond(r.PerSecond()), latency(.5), latency(.99), micros(r.CPU(server)), micros(r.CPU(meas.Self)),
		fmt.Sprintf("%.1f", r.Allocations()), fmt.Sprintf("%.2f", r.Counted()),
	}
}

// Text writes both tables for a terminal.
func (r *Report) Text(w io.Writer) error {
	rows := [][]string{strings.Split(columns, " | ")}
	for _, c := range r.Cases {
		rows = append(rows, cells(c))
	}
	if err := align(w, rows); err != nil {
		return err
	}
	rows = [][]string{{"", "target", "measured", "wanted", ""}}
	for _, t := range r.Targets {
		rows = append(rows, []string{t.ID, t.What, t.Figure, t.Wants, verdict(t.Met)})
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := align(w, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n%s", r.remarks(), r.failures())
	return err
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "NOT MET"
}

// align writes rows in columns, the first one to the left.
func align(w io.Writer, rows [][]string) error {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", widths[i]-len([]rune(cell))+2))
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// remarks says how disturbed the run was.
func (r *Report) remarks() string {
	var foreign []float64
	for _, c := range r.Cases {
		foreign = append(foreign, c.Foreign())
	}
	quiet := meas.Median(foreign)
	text := fmt.Sprintf("%d rounds of %v each, %d cases, %v in all. Other processes used %.2f processors meanwhile (median).",
		r.Options.Rounds, r.Options.Length, len(r.Cases), r.Took.Round(time.Second), quiet)
	if quiet > 0.1 {
		text += " The machine was not quiet: trust the ratios, not the figures."
	}
	return text
}

// failures tells of operations that failed, case by case.
func (r *Report) failures() string {
	text := ""
	for _, c := range r.Cases {
		if n, first := c.Failed(); n > 0 {
			text += fmt.Sprintf("%s: %d operations failed, the first: %v\n", c.Case.Name, n, first)
		}
	}
	return text
}

// machine describes what everything ran on.
func machine() string {
	model := "processor unknown"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, found := strings.Cut(string(b), "model name\t: "); found {
			model, _, _ = strings.Cut(rest, "\n")
		}
	}
	system := runtime.GOOS
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		system += " " + strings.TrimSpace(string(b))
	}
	return fmt.Sprintf("%d × %s, %s/%s, %s", runtime.NumCPU(), model, system, runtime.GOARCH, runtime.Version())
}

// versions are the modules that were measured.
func versions() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	var all []string
	for _, m := range info.Deps {
		for _, part := range []string{"redis/go-redis/v9", "redis_rate", "throttled/", "ulule/limiter", "sethvargo/go-limiter", "google.golang.org/grpc"} {
			if strings.Contains(m.Path, part) {
				all = append(all, strings.TrimPrefix(m.Path, "github.com/")+" "+m.Version)
			}
		}
	}
	return all
}
