package web

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/headgate/headgate/views"
)

// answerAutosave writes the answer that the page's script reads.
func answerAutosave(w http.ResponseWriter, status int, a views.Autosave) error {
	b, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("write an autosave's answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
	return nil
}
