package decisionlog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// tables reads the tables. None may be longer than the batch can use: each entry
// brings at most one of each.
func (r *Reader) tables(texts *Texts) error {
	if len(r.columns[fieldReplica]) > maxText || len(r.columns[fieldBoot]) > maxText {
		return errors.New("the replica's name is too long")
	}
	r.head.Replica, r.head.Boot = texts.of(r.columns[fieldReplica]), texts.of(r.columns[fieldBoot])
	if err := r.readTexts(texts); err != nil {
		return err
	}
	var err error
	if r.callers, err = r.tuples(fieldCallers); err != nil {
		return err
	}
	if r.targets, err = r.tuples(fieldTargets); err != nil {
		return err
	}
	if err := r.readValues(); err != nil {
		return err
	}
	return r.readResults()
}

// maxTexts is how many texts so many entries can have: ten of their own and, all
// together, a pair for each value.
func maxTexts(entries int) int { return entries*10 + min(entries*maxValues, maxPairs)*2 + 1 }

func (r *Reader) readTexts(known *Texts) error {
	blob := r.columns[fieldTexts]
	r.texts = append(make([]string, 0, min(r.left*2, len(blob))+1), "")
	for len(blob) > 0 {
		size, n := binary.Uvarint(blob)
		if n <= 0 || size == 0 || size > maxText || size > uint64(len(blob)-n) {
			return fmt.Errorf("text %d is empty, cut off or longer than %d bytes", len(r.texts), maxText)
		}
		if len(r.texts) >= maxTexts(r.left) {
			return errors.New("more texts than entries can have")
		}
		r.texts = append(r.texts, known.of(blob[n:n+int(size)]))
		blob = blob[n+int(size):]
	}
	return nil
}

func (r *Reader) tuples(field protowire.Number) ([][4]string, error) {
	c := column{rest: r.columns[field]}
	out := make([][4]string, 0, min(r.left, len(c.rest)/4))
	for len(c.rest) > 0 {
		if len(out) == r.left {
			return nil, fmt.Errorf("table %d has more than %d entries", field, r.left)
		}
		var t [4]string
		for i := range t {
			t[i] = c.text(r.texts)
		}
		if c.bad {
			return nil, fmt.Errorf("table %d cannot be read", field)
		}
		out = append(out, t)
	}
	return out, nil
}

func (r *Reader) readValues() error {
	c := column{rest: r.columns[fieldValues]}
	r.values = append(r.values, nil)
	pairs := uint64(0)
	for len(c.rest) > 0 {
		n := c.next()
		if pairs += n; n < 1 || n > maxValues || len(r.values) > r.left || pairs > maxPairs {
			return fmt.Errorf("values %d: %d of them", len(r.values), n)
		}
		values := make(map[string]string, n)
		for range n {
			name := c.text(r.texts)
			values[name] = c.text(r.texts)
		}
		if c.bad || uint64(len(values)) != n {
			return fmt.Errorf("values %d cannot be read", len(r.values))
		}
		r.values = append(r.values, values)
	}
	return nil
}

func (r *Reader) readResults() error {
	c := column{rest: r.columns[fieldResults]}
	r.results = make([]readResult, 0, min(r.left, len(c.rest)/6))
	for len(c.rest) > 0 {
		if len(r.results) == r.left {
			return fmt.Errorf("table %d has more than %d entries", fieldResults, r.left)
		}
		v := readResult{flags: c.next(), policy: c.signed(), cost: c.signed(), hits: c.signed(), reason: c.text(r.texts), limit: c.text(r.texts)}
		if c.bad || v.flags >= flagsEnd || v.flags&3 == 0 {
			return fmt.Errorf("result %d cannot be read", len(r.results))
		}
		r.results = append(r.results, v)
	}
	return nil
}

// column reads a table's numbers.
type column struct {
	rest []byte
	bad  bool
}

func (c *column) next() uint64 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.bad, c.rest = true, nil
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

func (c *column) signed() int64 {
	v := int64(c.next())
	c.bad = c.bad || v < 0
	return v
}

func (c *column) text(texts []string) string {
	at := c.next()
	if at >= uint64(len(texts)) {
		c.bad = true
		return ""
	}
	return texts[at]
}
