package config

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// maxSecret bounds a file that holds a secret, in bytes.
const maxSecret = 64 << 10

// Secret is a setting that may be given directly or as a file that holds it
// (flag + "-file"). Both at once are a problem, and so is an empty file; line
// ends around the content are dropped.
func Secret(p *Problems, flag, value, file string) string {
	if file == "" {
		return value
	}
	if value != "" {
		p.Add(flag, "is given together with %s-file; only one of them may be", flag)
		return value
	}
	b, err := readSmall(file)
	if err != nil {
		p.Add(flag+"-file", "%v", err)
		return ""
	}
	s := strings.TrimSpace(string(b))
	if s == "" {
		p.Add(flag+"-file", "%s is empty", file)
	}
	return s
}

func readSmall(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxSecret {
		return nil, fmt.Errorf("%s is larger than %d bytes", file, maxSecret)
	}
	return b, nil
}
