package dimension

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// MaxBody is how much of a body is looked at for dimensions, in bytes.
const MaxBody = 64 << 10

// Body reads at most so many of the first bytes of r's body and puts them back: whoever
// reads r.Body afterwards gets every byte, and the same error at the same place.
// Length, transfer coding and trailers of the request stay as they are. whole
// reports that peek is all of it. It waits for the client, within the deadlines
// of the connection; a client that waits for "100 Continue" gets it.
//
// err is the client's (it went away, or sent a broken body); the request may
// still be forwarded, and fails there in the same way.
func Body(r *http.Request, most int64) (peek []byte, whole bool, err error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, true, nil
	}
	// One byte more tells a body of exactly so many bytes from a longer one.
	read, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	rest := io.Reader(r.Body)
	if err != nil {
		rest = failing{err}
	}
	r.Body = putBack{Reader: io.MultiReader(bytes.NewReader(read), rest), Closer: r.Body}
	if int64(len(read)) > most {
		return read[:most:most], false, err
	}
	return read, err == nil, err
}

// putBack is a body whose beginning has been read already.
type putBack struct {
	io.Reader
	io.Closer
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// ContentType is the type of a body that can be read: "" when the body is
// compressed, or when the header does not have exactly one line.
func ContentType(h http.Header) string {
	for _, coding := range h.Values("Content-Encoding") {
		if c := strings.TrimSpace(coding); c != "" && !strings.EqualFold(c, "identity") {
			return ""
		}
	}
	if lines := h.Values("Content-Type"); len(lines) == 1 {
		return lines[0]
	}
	return ""
}

// Header is the value of a header, without spaces around it and in normal form C.
// A blank one is Missing; one with several lines is Unreadable.
func Header(h http.Header, name string) (value string, state State) {
	lines := h.Values(name)
	if len(lines) > 1 {
		return "", Unreadable
	}
	if len(lines) == 0 {
		return "", Missing
	}
	return known(exact(lines[0]))
}

// known tells a value that is there from a blank one.
func known(value string) (string, State) {
	if value == "" {
		return "", Missing
	}
	return value, Present
}
