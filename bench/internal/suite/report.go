package suite

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
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
	Doors   []*meas.Result
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

// doorColumns of the table of Envoy doors.
const doorColumns = "service | decisions/s | p50 | p99 | service CPU | Redis CPU | loader CPU | script calls | admitted"

func doorCells(r *meas.Result) []string {
	return []string{
		r.Case.Name, perSecond(r.PerSecond()), micros(r.Quantile(.5)), micros(r.Quantile(.99)), micros(r.CPU(service)),
		micros(r.CPU(server)), micros(r.CPU(meas.Self)), fmt.Sprintf("%.2f", r.Counted()), fmt.Sprintf("%.1f %%", 100*r.Admitted()),
	}
}

// tables are all tables, each with its headings first.
func (r *Report) tables() [][][]string {
	targets := [][]string{{"", "target", "measured", "wanted", ""}}
	for _, t := range r.Targets {
		targets = append(targets, []string{t.ID, t.What, t.Figure, t.Wants, verdict(t.Met)})
	}
	cases := [][]string{strings.Split(columns, " | ")}
	for _, c := range r.Cases {
		cases = append(cases, cells(c))
	}
	doors := [][]string{strings.Split(doorColumns, " | ")}
	for _, d := range r.Doors {
		doors = append(doors, doorCells(d))
	}
	var all [][][]string
	for _, t := range [][][]string{targets, cases, doors} {
		if len(t) > 1 {
			all = append(all, t)
		}
	}
	return all
}

// Text writes everything for a terminal, the targets last.
func (r *Report) Text(w io.Writer) error {
	tables := r.tables()
	slices.Reverse(tables)
	for _, t := range tables {
		if err := align(w, t); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s\n%s", r.remarks(), r.failures())
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
	for _, c := range slices.Concat(r.Cases, r.Doors) {
		foreign = append(foreign, c.Foreign())
	}
	quiet := meas.Median(foreign)
	text := fmt.Sprintf("%d rounds of %v each, %d cases, %v in all. Other processes used %.2f processors meanwhile (median).",
		r.Options.Rounds, r.Options.Length, len(r.Cases)+len(r.Doors), r.Took.Round(time.Second), quiet)
	if quiet > 0.1 {
		text += " The machine was not quiet: trust the ratios, not the figures."
	}
	return text
}

// failures tells of operations that failed, case by case.
func (r *Report) failures() string {
	text := ""
	for _, c := range slices.Concat(r.Cases, r.Doors) {
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
