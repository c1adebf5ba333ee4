package web

import (
	"net/http"
	"strings"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/csvout"
)

// usageFile is the answer to a question as a file, with totals.
func (s *Server) usageFile(format console.UsageFormat) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		q := s.usageAsked(r, nil)
		if !q.form.OK() {
			var fields []console.FieldError
			for field, message := range q.form.Errors {
				fields = append(fields, console.FieldError{Field: field, Message: message})
			}
			return &console.Error{Code: console.CodeInvalid, Public: "The question cannot be answered as it stands.", Fields: fields}
		}
		if err := s.Exports.Begin(r.Context(), actor(r), "usage", r.URL.Query().Encode()); err != nil {
			return err
		}
		w.Header().Set("Content-Type", format.ContentType())
		w.Header().Set("Content-Disposition", strings.Replace(csvout.FileName("usage", s.Now()), ".csv", "."+string(format), 1))
		out := &lateWriter{ResponseWriter: w}
		err := s.Ledger.WriteReport(r.Context(), actor(r), out, q.query, q.span, format)
		if err != nil && !out.begun {
			w.Header().Del("Content-Disposition")
			return err
		}
		if err != nil {
			s.Log.ErrorContext(r.Context(), "export ended early", "request_id", requestID(r.Context()), "what", "usage", "error", err)
			panic(http.ErrAbortHandler)
		}
		return nil
	}
}

// lateWriter remembers whether anything was written: until then an error can still be
// told.
type lateWriter struct {
	http.ResponseWriter
	begun bool
}

// Write implements io.Writer.
func (w *lateWriter) Write(p []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(p)
}
