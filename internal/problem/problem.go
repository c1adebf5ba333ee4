// Package problem writes problem documents for doors that answer programs and
// stand outside the JSON API. It is a leaf: it imports nothing of this module.
package problem

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// Write writes a problem document (RFC 9457) without a type of its own. A wait
// above 0 is told in Retry-After, in whole seconds.
func Write(w http.ResponseWriter, status int, detail string, wait time.Duration) {
	w.Header().Set("Content-Type", "application/problem+json")
	if wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait.Round(time.Second)/time.Second)))
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(status), status, detail})
}
