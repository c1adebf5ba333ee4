package decisionlog

// Message is Encode without the compression.
func Message(b *Batch) []byte { return message(b) }

// DecodeMessage is Decode of what is not compressed.
func DecodeMessage(raw []byte) (*Batch, error) {
	r, err := new(Texts).openMessage(raw)
	if err != nil {
		return nil, err
	}
	return r.all()
}
