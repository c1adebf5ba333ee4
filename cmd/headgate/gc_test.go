package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestGC_TheEnvironmentIsFollowedAndAContainersMemoryNotExceeded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env     map[string]string
		file    string // "": there is none
		percent int
		limit   int64
	}{
		"nothing said":         {percent: 400},
		"a container":          {file: "1000000\n", percent: 400, limit: 850_000},
		"one without a limit":  {file: "max\n", percent: 400},
		"a file of nonsense":   {file: "-5", percent: 400},
		"GOGC":                 {env: map[string]string{"GOGC": "100"}, file: "1000000", limit: 850_000},
		"GOMEMLIMIT":           {env: map[string]string{"GOMEMLIMIT": "1GiB"}, file: "1000000", percent: 400},
		"both, in a container": {env: map[string]string{"GOGC": "off", "GOMEMLIMIT": "1GiB"}, file: "1000000"},
	} {
		file := filepath.Join(t.TempDir(), "memory.max")
		if c.file != "" {
			if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		percent, limit := seldom(func(name string) string { return c.env[name] }, file)
		if percent != c.percent || limit != c.limit {
			t.Errorf("%s: %d %%, %d bytes; want %d %%, %d bytes", name, percent, limit, c.percent, c.limit)
		}
	}
}
