package policy

// Canonical is the document's canonical JSON: sorted keys, no spaces, defaults
// filled in, one spelling of each value. These bytes are hashed and signed.
func (d *Document) Canonical() []byte { return nil }

// JSON is the canonical JSON with indentation, for people.
func (d *Document) JSON() []byte { return nil }

// YAML says the same as Canonical in YAML, fields in the order of the types.
func (d *Document) YAML() []byte { return nil }
