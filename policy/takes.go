package policy

// Claims are patterns that requests belong to, such as those of a route.
type Claims struct{ patterns []*pattern }

// ClaimsOf reads patterns; one that cannot be read claims nothing.
func ClaimsOf(patterns []string) Claims {
	var c Claims
	for _, text := range patterns {
		if p, err := parsePattern(text); err == nil {
			c.patterns = append(c.patterns, p)
		}
	}
	return c
}

// Len is the number of patterns.
func (c Claims) Len() int { return len(c.patterns) }

// TakenBy reports whether some request that the patterns match goes to the
// pattern of that text when both are there.
func (c Claims) TakenBy(text string) bool {
	p, err := parsePattern(text)
	if err != nil {
		return false
	}
	for _, q := range c.patterns {
		if p.goesBefore(q) {
			return true
		}
	}
	return false
}

// goesBefore reports whether p gets requests that q matches: a host goes before none,
// else the narrower one goes first. Of two that cross only one may be there.
func (p *pattern) goesBefore(q *pattern) bool {
	if p.host != q.host && p.host != "" && q.host != "" {
		return false
	}
	switch p.compare(q) {
	case disjoint:
		return false
	case wider:
		return p.host != "" && q.host == ""
	default:
		return p.host == q.host || p.host != ""
	}
}
