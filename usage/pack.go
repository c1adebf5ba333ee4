package usage

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// flaters are used again: one takes a megabyte to make.
//
//nolint:gochecknoglobals // a pool of what is costly to make
var flaters = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.BestSpeed) // the level is one that there is
	return w
}}

// Pack writes v as batches travel: DEFLATE (RFC 1951) over JSON. It refuses more than
// so many bytes of text, and of what they come to.
func Pack(v any, text, packed int) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	var out bytes.Buffer
	z, _ := flaters.Get().(*flate.Writer)
	defer flaters.Put(z)
	z.Reset(&out)
	if _, err := z.Write(raw); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if len(raw) > text || out.Len() > packed {
		return nil, fmt.Errorf("%d bytes of text in %d are too many", len(raw), out.Len())
	}
	return out.Bytes(), nil
}

// Unpack reads what Pack wrote into v, and no more than so many bytes of it, whatever
// they would come to.
func Unpack(body []byte, text, packed int, v any) error {
	if len(body) > packed {
		return fmt.Errorf("%d bytes, at most %d", len(body), packed)
	}
	raw, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(body)), int64(text)+1))
	if err != nil {
		return err
	}
	if len(raw) > text {
		return fmt.Errorf("more than %d bytes of text", text)
	}
	return json.Unmarshal(raw, v)
}
