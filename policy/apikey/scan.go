package apikey

import "strings"

// Found is one key in a text, by its place in bytes.
type Found struct {
	Start, End int
	Parsed
}

// tailLength is the length of what follows the environment in a key.
const tailLength = 1 + KIDLength + 1 + secretLength + crcLength

// Scan finds keys in any text, by their shape and checksum, from the left: at
// most most of them. A key may stand inside other text.
func Scan(text string, most int) []Found {
	var out []Found
	for at := 0; len(out) < most; {
		i := strings.Index(text[at:], "hg_")
		if i < 0 {
			break
		}
		start := at + i
		at = start + 1
		for _, env := range [...]string{Live, Test, Ops} {
			end := start + len("hg_") + len(env) + tailLength
			if end > len(text) {
				continue
			}
			if parsed, err := Parse(text[start:end]); err == nil {
				out = append(out, Found{Start: start, End: end, Parsed: parsed})
				at = end
				break
			}
		}
	}
	return out
}
