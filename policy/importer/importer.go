package importer

import "github.com/headgate/headgate/policy"

// Note says something about an import that the result does not show: what could
// not be expressed, what was decided, what is left to do.
type Note struct {
	Path    string `json:"path"`           // in the source: "descriptors[0].rate_limit", "paths./pets.get"; "" for the whole
	Line    int    `json:"line,omitempty"` // in the source, from 1; 0 when unknown
	Message string `json:"message"`        // one sentence
	Todo    bool   `json:"todo"`           // somebody has to decide before the result can be published
}

// EnvoyRateLimit reads a configuration of envoyproxy/ratelimit, in YAML.
func EnvoyRateLimit(src []byte) (*policy.Document, []Note, error) { return envoyRateLimit(src) }

// OpenAPI reads the paths of an OpenAPI document (3.0 or 3.1), in YAML or JSON.
func OpenAPI(src []byte) ([]policy.Route, []Note, error) { return openAPI(src) }
