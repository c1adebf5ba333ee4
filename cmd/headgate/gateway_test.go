package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/testkit"
)

func TestGateway_AllProblemsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	code := run([]string{
		"gateway", "--listen", "nonsense", "--grpc-listen", "127.0.0.1:0", "--grpc-cert-file", "absent.pem", "--grpc-client-ca-file", "absent.pem", "--decide-listen", "0.0.0.0:0", "--budget", "1m",
		"--redis-url", "redis://:sesame@127.0.0.1:port",
	}, nil, &stdout, &stderr)
	if code != 1 {
		t.Errorf("exit status %d", code)
	}
	for _, want := range []string{
		"--listen", "--upstream", "--grpc-cert-file: and --grpc-key-file: both are needed", "--decide-token-file", "--budget", "--redis-url", "--policy-key-file", "--state-dir",
	} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no word of %s in:\n%s", want, &stderr)
		}
	}
	if strings.Contains(stderr.String(), "sesame") {
		t.Errorf("the password is told:\n%s", &stderr)
	}
}

func TestGateway_RunsWithoutPolicyAndSaysThatItIsNotReady(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	public := filepath.Join(dir, "key.pub.pem")
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := config.WriteKeyPair(private, filepath.Join(dir, "key.pem"), public); err != nil {
		t.Fatal(err)
	}
	addresses := filepath.Join(dir, "addresses.json")
	c := gatewayCmd{
		RedisURL: testkit.RedisURL(t), RedisNamespace: "hg", Deployment: "test", PolicyKeyFile: []string{public}, StateDir: filepath.Join(dir, "state"),
		Listen: "127.0.0.1:0", Upstream: "http://127.0.0.1:1", AdminListen: "127.0.0.1:0", AddrFile: addresses, Budget: 25 * time.Millisecond,
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	bound := map[string]string{}
	for bound["admin"] == "" {
		select {
		case err := <-ended:
			t.Fatalf("ended: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
		if raw, err := os.ReadFile(addresses); err == nil {
			_ = json.Unmarshal(raw, &bound)
		}
	}
	res, err := http.Get("http://" + bound["admin"] + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if res.StatusCode != 503 || !strings.Contains(string(text), `"no-policy"`) {
		t.Errorf("readiness %d %s", res.StatusCode, text)
	}
	again := c
	again.AddrFile = ""
	if err := again.Run(ctx); err == nil || !strings.Contains(err.Error(), "another gateway is using this state folder") {
		t.Errorf("a second one on the same folder: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("stopped with %v", err)
	}
}
