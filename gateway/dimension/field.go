package dimension

import (
	"mime"
	"strings"
	"unicode/utf8"
)

// Field is the value of a body's field, in the form of Fold. It reads JSON
// (application/json, or a type that ends in +json), where name is a member of the
// object and dots go deeper, and forms (application/x-www-form-urlencoded), where
// user.name may be spelled user[name].
//
// contentType is that of ContentType; peek and whole are those of Body. A body
// that is not whole, compressed, of another type, broken, or that has the field
// twice (also in another letter case, or as a list) is Unreadable, and so is a form
// of more than 1000 fields and a value of more than 1 KiB that is not ASCII: an upstream may
// find a value in it. An empty body, a field that is not there, null and blank
// values are Missing.
func Field(contentType string, peek []byte, whole bool, name string) (value string, state State) {
	if whole && len(peek) == 0 {
		return "", Missing
	}
	media, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || !whole || !utf8.Valid(peek) {
		return "", Unreadable
	}
	if charset := parameters["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "us-ascii") {
		return "", Unreadable
	}
	switch {
	case media == "application/json", strings.HasSuffix(media, "+json"):
		value, state = jsonField(peek, name)
	case media == "application/x-www-form-urlencoded":
		value, state = formField(string(peek), name)
	default:
		return "", Unreadable
	}
	if state != Present {
		return "", state
	}
	if strings.ContainsRune(value, utf8.RuneError) {
		return "", Unreadable // what stood here is not known any more
	}
	if len(value) > maxPlain && !isPlainASCII(value) {
		return "", Unreadable // no name of an account, and dear to fold
	}
	return known(Fold(value))
}

// RequestField is Field for upstreams that read a field from the URL, too: a name
// that stands in rawQuery makes the field Unreadable, in whatever form it stands
// there, because it cannot be told which of the two an upstream takes.
func RequestField(rawQuery, contentType string, peek []byte, whole bool, name string) (value string, state State) {
	if rawQuery != "" {
		if _, inURL := formField(rawQuery, name); inURL != Missing {
			return "", Unreadable
		}
	}
	return Field(contentType, peek, whole, name)
}
