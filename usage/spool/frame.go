package spool

import (
	"encoding/binary"
	"hash/crc32"
)

// A frame is length and CRC-32C (4 bytes each, little-endian), number (8 bytes) and
// payload; the sum is over number and payload. Numbers of a journal grow by one, so
// that what is missing in its middle can be counted.
const (
	frameHead = 16
	// maxPayload bounds what a reader believes a length to be.
	maxPayload = 64 << 20
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) } // made once by the library

// appendFrame appends a frame.
func appendFrame(b []byte, number uint64, payload []byte) []byte {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload))) //nolint:gosec // far below 4 GiB
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, number)
	b = append(b, payload...)
	binary.LittleEndian.PutUint32(b[at+4:], crc32.Checksum(b[at+8:], castagnoli()))
	return b
}

// readFrame reads the frame at the beginning of b; size 0: there is none.
func readFrame(b []byte) (number uint64, payload []byte, size int) {
	if len(b) < frameHead {
		return 0, nil, 0
	}
	n := binary.LittleEndian.Uint32(b)
	if n == 0 || n > maxPayload || int(n) > len(b)-frameHead {
		return 0, nil, 0
	}
	size = frameHead + int(n)
	if crc32.Checksum(b[8:size], castagnoli()) != binary.LittleEndian.Uint32(b[4:]) {
		return 0, nil, 0
	}
	return binary.LittleEndian.Uint64(b[8:]), b[frameHead:size], size
}

// scan reads the frames of a file. What is none is passed over, byte by byte, up to the
// next frame with a higher number: skipped counts these bytes, tail those after the last
// frame, which a write that was cut short leaves.
func scan(b []byte, after uint64, each func(at int, number uint64, payload []byte)) (skipped, tail int) {
	pending := 0
	for at := 0; at < len(b); {
		number, payload, size := readFrame(b[at:])
		if size == 0 || number <= after {
			pending++
			at++
			continue
		}
		skipped += pending
		pending, after = 0, number
		each(at, number, payload)
		at += size
	}
	return skipped, pending
}

// cursor reads a payload. After the first thing that is not there it is bad, and
// everything else is zero.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) number() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.bad, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

// signed is a number that was written as it is, or with its sign in the lowest bit.
func (c *cursor) signed() int64 {
	v := c.number()
	return int64(v>>1) ^ -int64(v&1) //nolint:gosec // zigzag
}

func (c *cursor) bytes() []byte {
	n := c.number()
	if n > uint64(len(c.b)) {
		c.bad, c.b = true, nil
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

func (c *cursor) text() string { return string(c.bytes()) }

// done reports whether all was there, and nothing more.
func (c *cursor) done() bool { return !c.bad && len(c.b) == 0 }

func appendSigned(b []byte, v int64) []byte {
	return binary.AppendUvarint(b, uint64(v<<1)^uint64(v>>63)) //nolint:gosec // zigzag
}

func appendText[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
