package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
)

// update is a flag, as the go command passes them to tests.
var update = flag.Bool("update", false, "write openapi.json anew")

func described(t *testing.T) []byte {
	t.Helper()
	a, err := build(Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(a.huma.OpenAPI(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(b, '\n')
}

func TestOpenAPI_CommittedDocumentIsWhatTheCodeSays(t *testing.T) {
	t.Parallel()
	fresh := described(t)
	if *update {
		if err := os.WriteFile("openapi.json", fresh, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(fresh, OpenAPI()) {
		t.Error("openapi.json is stale: go test ./web/api -run OpenAPI -update")
	}
}

func TestOpenAPI_EveryOperationSaysWhatItNeeds(t *testing.T) {
	t.Parallel()
	var doc struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]map[string]struct {
			OperationID string                     `json:"operationId"`
			Summary     string                     `json:"summary"`
			Responses   map[string]json.RawMessage `json:"responses"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(described(t), &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") || len(doc.Paths) < 20 {
		t.Fatalf("openapi %s with %d paths", doc.OpenAPI, len(doc.Paths))
	}
	for path, methods := range doc.Paths {
		for method, o := range methods {
			if o.OperationID == "" || o.Summary == "" || o.Responses["401"] == nil || o.Responses["403"] == nil {
				t.Errorf("%s %s: id, summary, 401 or 403 is missing", method, path)
			}
		}
	}
}

func TestRegister_OperationWithoutPermissionKeepsTheAPIFromStarting(t *testing.T) {
	t.Parallel()
	a, err := build(Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	register(a, op{id: "x", method: "GET", path: "/x"}, a.getHealth)
	if len(a.errs) != 1 || !strings.Contains(a.errs[0].Error(), "GET /x has no permission") {
		t.Errorf("errs = %v", a.errs)
	}
}
