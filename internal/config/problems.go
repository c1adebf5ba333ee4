package config

import (
	"errors"
	"fmt"
	"strings"
)

// Problems collects what is wrong with a configuration, so that an operator
// sees all of it at the first start. The zero value is empty and ready.
type Problems struct {
	lines []string
}

// Add notes a problem with a setting, named as the flag is: "--redis-url".
func (p *Problems) Add(setting, format string, args ...any) {
	p.lines = append(p.lines, setting+": "+fmt.Sprintf(format, args...))
}

// Require notes a setting that has to be given and is empty.
func (p *Problems) Require(setting, value string) {
	if strings.TrimSpace(value) == "" {
		p.Add(setting, "is required (or set %s)", EnvName(setting))
	}
}

// Err is nil when there are no problems, else one error that lists them all.
func (p *Problems) Err() error {
	switch len(p.lines) {
	case 0:
		return nil
	case 1:
		return errors.New(p.lines[0])
	default:
		return fmt.Errorf("%d problems with the configuration:\n  %s", len(p.lines), strings.Join(p.lines, "\n  "))
	}
}

// EnvName is the environment variable of a flag: --redis-url is HEADGATE_REDIS_URL.
func EnvName(flag string) string {
	name := strings.TrimLeft(flag, "-")
	return "HEADGATE_" + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name))
}
