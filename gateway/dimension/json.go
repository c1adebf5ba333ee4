package dimension

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// maxJSONDepth bounds how deep a body's JSON is looked at.
const maxJSONDepth = 64

// jsonField finds a member of a JSON object; dots in name go deeper. A name that
// differs in letter case alone is the same name: some readers of JSON take it so.
func jsonField(body []byte, name string) (value string, state State) {
	if !json.Valid(body) {
		return "", Unreadable
	}
	s := jsonSearch{dec: json.NewDecoder(bytes.NewReader(body))}
	s.dec.UseNumber()
	if err := s.value(strings.Split(name, "."), 0); err != nil || s.twice {
		return "", Unreadable
	}
	return s.found, s.state
}

// jsonSearch walks through a document once, by its tokens.
type jsonSearch struct {
	dec   *json.Decoder
	found string
	state State
	seen  bool
	twice bool
}

var errDeep = errors.New("JSON nests too deep")

// value reads one value; path is what remains of the name, nil beside it.
func (s *jsonSearch) value(path []string, depth int) error {
	if depth > maxJSONDepth {
		return errDeep
	}
	t, err := s.dec.Token()
	if err != nil {
		return err
	}
	wanted := path != nil && len(path) == 0
	if wanted {
		s.twice = s.twice || s.seen
		s.seen = true
	}
	delim, composite := t.(json.Delim)
	if !composite {
		if wanted {
			s.found, s.state = scalar(t)
		}
		return nil
	}
	if wanted {
		s.state = Unreadable // a list or an object, which some upstreams take for its text
	}
	if delim == '{' {
		return s.object(path, depth)
	}
	return s.array(depth)
}

func (s *jsonSearch) object(path []string, depth int) error {
	onWay := false
	for s.dec.More() {
		t, err := s.dec.Token()
		if err != nil {
			return err
		}
		var rest []string
		if name, _ := t.(string); len(path) > 0 && strings.EqualFold(name, path[0]) {
			s.twice = s.twice || onWay
			onWay = true
			rest = path[1:]
		}
		if err := s.value(rest, depth+1); err != nil {
			return err
		}
	}
	_, err := s.dec.Token()
	return err
}

func (s *jsonSearch) array(depth int) error {
	for s.dec.More() {
		if err := s.value(nil, depth+1); err != nil {
			return err
		}
	}
	_, err := s.dec.Token()
	return err
}

// scalar is the text of a JSON value that is no list or object.
func scalar(t json.Token) (string, State) {
	switch t := t.(type) {
	case string:
		return t, Present
	case bool:
		return strconv.FormatBool(t), Present
	case json.Number:
		return number(string(t)), Present
	}
	return "", Missing
}

// exactDigits is the longest whole number that is kept as it stands: up to here
// each is a number of its own also for upstreams that read them as floats.
const exactDigits = 15

// number writes a JSON number in one way: 5, 5.0 and 50e-1 are one account, and
// the same as "5". Numbers that a float cannot tell apart are one, too.
func number(text string) string {
	digits := strings.TrimPrefix(text, "-")
	if len(digits) <= exactDigits && !strings.ContainsAny(digits, ".eE") && digits != "0" {
		return text
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text // beyond floats: kept as it stands
	}
	if f == 0 {
		return "0"
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}
