package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/headgate/headgate/console"
)

const (
	// bulkPause is how long an upload may pause.
	bulkPause = time.Minute
	// bulkLongest is how long an upload or a download may take altogether.
	bulkLongest = 20 * time.Minute
	// bulkJSON bounds a selection, in bytes: a thousand rows named one by one fit.
	bulkJSON = 128 << 10
)

func (a *API) createBulk(ctx context.Context, in *bulkCreateIn) (*Body[BulkJob], error) {
	want := console.NewBulk{Kind: console.BulkKind(in.Kind), Name: in.Name, Reason: in.Reason, IdempotencyKey: in.IdempotencyKey}
	kind, params, err := mime.ParseMediaType(in.ContentType)
	body := patient(in.request)
	switch {
	case err != nil:
		kind = ""
	case kind == "text/csv":
		want.Format, want.Input = console.BulkCSV, body
	case kind == "application/x-ndjson":
		want.Format, want.Input = console.BulkJSONLines, body
	case kind == "application/json":
		err = readSelection(body, &want)
	case kind == "multipart/form-data":
		err = readParts(multipart.NewReader(body, params["boundary"]), &want)
	default:
		kind = ""
	}
	if kind == "" {
		return nil, newProblem(http.StatusUnsupportedMediaType, "The body must be text/csv, application/x-ndjson, multipart/form-data or application/json.")
	}
	if err != nil {
		return nil, err
	}
	if want.Kind.Imports() != (want.Input != nil) && want.Kind.Needs() != "" {
		return nil, fieldProblem("kind", "an import takes a file, any other job a selection")
	}
	j, err := a.Bulk.Create(ctx, actorOf(ctx), want)
	if err != nil {
		return nil, err
	}
	return &Body[BulkJob]{bulkOf(j)}, nil
}

func readSelection(body io.Reader, want *console.NewBulk) error {
	raw, err := io.ReadAll(io.LimitReader(body, bulkJSON+1))
	if err != nil {
		return newProblem(http.StatusBadRequest, "The body could not be read to its end.").as(string(console.CodeInvalid))
	}
	if len(raw) > bulkJSON {
		return newProblem(http.StatusRequestEntityTooLarge, fmt.Sprintf("A selection takes at most %d KiB.", bulkJSON>>10))
	}
	if err := noDuplicates(raw); err != nil {
		return newProblem(http.StatusBadRequest, err.Error()).as(string(console.CodeInvalid))
	}
	in := bulkRequest{Kind: string(want.Kind), Name: want.Name, Reason: want.Reason}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return badSelection(err)
	}
	want.Kind, want.Name, want.Reason, want.Selection = console.BulkKind(in.Kind), in.Name, in.Reason, console.BulkSelection(in.Selection)
	return nil
}

// badSelection names the field, and repeats nothing that was sent.
func badSelection(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fieldProblem(e.Field, "this is not a "+e.Type.String())
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fieldProblem(strings.Trim(name, `"`), "is not a field here")
	}
	if _, ok := errors.AsType[*time.ParseError](err); ok {
		return fieldProblem("selection.expires_at", "must be a time such as 2027-01-31T00:00:00Z")
	}
	return newProblem(http.StatusBadRequest, plainJSONError(err).Error()).as(string(console.CodeInvalid))
}

// readParts reads the fields of a form up to its file, which stays a stream.
func readParts(form *multipart.Reader, want *console.NewBulk) error {
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return fieldProblem("file", "is required, after the other fields")
		}
		if err != nil {
			return newProblem(http.StatusBadRequest, "The form could not be read.").as(string(console.CodeInvalid))
		}
		if part.FormName() == "file" {
			want.Input = part
			if want.Name == "" {
				want.Name = part.FileName()
			}
			want.Format = formatOf(part)
			return nil
		}
		value, err := io.ReadAll(io.LimitReader(part, 4096))
		if err != nil {
			return newProblem(http.StatusBadRequest, "The form could not be read.").as(string(console.CodeInvalid))
		}
		switch part.FormName() {
		case "kind":
			want.Kind = console.BulkKind(value)
		case "name":
			want.Name = string(value)
		case "reason":
			want.Reason = string(value)
		default:
			return fieldProblem("form", "has a field that is none here: kind, name, reason and file are")
		}
	}
}

// formatOf tells JSON lines from CSV by the part's type or the file's name.
func formatOf(part *multipart.Part) console.BulkFormat {
	kind, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
	if kind == "application/x-ndjson" || slices.Contains([]string{".ndjson", ".jsonl"}, filepath.Ext(part.FileName())) {
		return console.BulkJSONLines
	}
	return console.BulkCSV
}

// patientBody is a body that may take long to arrive, as long as it does arrive.
type patientBody struct {
	in    io.Reader
	ctl   *http.ResponseController
	until time.Time
}

func patient(c huma.Context) *patientBody {
	_, w := humachi.Unwrap(c)
	return &patientBody{c.BodyReader(), http.NewResponseController(w), time.Now().Add(bulkLongest)}
}

// Read implements io.Reader.
func (b *patientBody) Read(p []byte) (int, error) {
	next := time.Now().Add(bulkPause)
	if next.After(b.until) {
		next = b.until
	}
	_ = b.ctl.SetReadDeadline(next) // a server without deadlines has none to move
	_ = b.ctl.SetWriteDeadline(next.Add(bulkPause))
	return b.in.Read(p)
}
