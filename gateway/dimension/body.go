package dimension

import "net/http"

// MaxBody is how much of a body is looked at for dimensions, in bytes.
const MaxBody = 64 << 10

// Body reads at most the first max bytes of r's body and puts them back, so that
// whoever reads r.Body afterwards gets every byte. whole: there is no more.
func Body(r *http.Request, max int64) (peek []byte, whole bool, err error) {
	return nil, false, nil
}

// ContentType is the type of a body that can be read: "" when it is compressed
// or when the header does not have exactly one line.
func ContentType(h http.Header) string { return "" }

// Field is the value of a body's field.
func Field(contentType string, peek []byte, whole bool, name string) (value string, state State) {
	return "", Unreadable
}

// Header is the value of a header.
func Header(h http.Header, name string) (value string, state State) { return "", Missing }
