package policy

// ParseRate reads "60/minute", "10/90s", "unlimited" or "0".
func ParseRate(s string) (Rate, error) { return Rate{}, nil }

// String is the one spelling of a rate; ParseRate reads it back.
func (r Rate) String() string { return "" }

// NumbersOf turns a rate and burst into reduced integers.
func NumbersOf(r Rate, burst int64) (Numbers, error) { return Numbers{}, nil }
