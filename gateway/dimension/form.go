package dimension

import (
	"net/url"
	"strings"
)

// maxPairs bounds the fields of a form that is looked at, as upstreams bound them.
const maxPairs = 1000

// formField finds a field of a form. The value is as it was sent.
//
// Readers of forms differ: some split at semicolons, some write dots and spaces
// in names as underscores, some take name[] for name, some ignore letter case. A
// spelling that any of them takes for the field counts as the field, and any but
// one plain occurrence of it is Unreadable.
func formField(form, name string) (value string, state State) {
	wanted := formName(name)
	pairs := 0
	for pair := range strings.FieldsFuncSeq(form, func(r rune) bool { return r == '&' || r == ';' }) {
		if pairs++; pairs > maxPairs {
			return "", Unreadable
		}
		key, sent, _ := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(key)
		if err != nil {
			return "", Unreadable
		}
		is, within := sameName(formName(plain), wanted)
		if !is && !within {
			continue
		}
		if within || state != Missing || strings.Contains(form, ";") {
			return "", Unreadable
		}
		if value, err = url.QueryUnescape(sent); err != nil {
			return "", Unreadable
		}
		state = Present
	}
	return value, state
}

// formName brings the spellings of a field's name together: user[name] is user.name.
func formName(name string) string {
	name, _, _ = strings.Cut(name, "\x00")
	return strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(name), "[", "."), "]", "")
}

// sameName reports whether key names the field, or an entry of it as a list or object.
func sameName(key, wanted string) (is, within bool) {
	if strings.EqualFold(underscored(key), underscored(wanted)) {
		return true, false
	}
	for i, r := range key { // folding may change a letter's length in bytes
		if r == '.' && strings.EqualFold(key[:i], wanted) {
			return false, true
		}
	}
	return false, false
}

func underscored(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, ".", "_"), " ", "_")
}
