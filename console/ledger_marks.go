package console

import (
	"slices"
	"time"
)

// maxStretches bounds the stretches beyond a gap that are remembered of one boot. What would
// need more waits until its gap is closed: the replica sends it again.
const maxStretches = 256

// maxJump bounds by how much numbers of a boot may be ahead of its mark: far more than the
// largest spool holds, and far too few to add up to what no number holds.
const maxJump = 1 << 32

// runMark is a mark while batches of its boot are taken in.
type runMark struct {
	UsageMark
	gaps   []OpenGap
	filled map[int64]bool // ids of gaps that changed
}

// has reports whether a number was taken in, or decided on, before.
func (m *runMark) has(n int64) bool {
	if n > m.Seq {
		return within(m.Ahead, n)
	}
	for i := range m.gaps {
		if g := &m.gaps[i]; n >= g.In.First && n <= g.In.Last {
			return within(g.Filled, n)
		}
	}
	return true
}

func within(s []Stretch, n int64) bool {
	for _, x := range s {
		if n >= x.First && n <= x.Last {
			return true
		}
	}
	return false
}

// fresh are the stretches of in that were not taken before.
func (m *runMark) fresh(in Stretch) []Stretch {
	if in.First > m.Seq && len(m.Ahead) == 0 {
		if in.Last < in.First {
			return nil
		}
		return []Stretch{in}
	}
	var out []Stretch
	for n := in.First; n <= in.Last; n++ {
		if m.has(n) {
			continue
		}
		if last := len(out) - 1; last >= 0 && out[last].Last == n-1 {
			out[last].Last = n
		} else {
			out = append(out, Stretch{n, n})
		}
	}
	return out
}

// room reports whether a stretch can be remembered.
func (m *runMark) room(in Stretch) bool {
	return in.First <= m.Seq+1 || len(join(m.Ahead, in)) <= maxStretches
}

// take notes that all of in is taken care of.
func (m *runMark) take(in Stretch, now time.Time) {
	for i := range m.gaps {
		g := &m.gaps[i]
		part := Stretch{max(in.First, g.In.First), min(in.Last, g.In.Last)}
		if part.First > part.Last {
			continue
		}
		g.Filled = join(g.Filled, part)
		g.Missing = g.In.Last - g.In.First + 1
		for _, f := range g.Filled {
			g.Missing -= f.Last - f.First + 1
		}
		if m.filled == nil {
			m.filled = map[int64]bool{}
		}
		m.filled[g.ID] = true
	}
	if in.Last > m.Seq && in.First <= in.Last {
		m.Ahead = join(m.Ahead, Stretch{max(in.First, m.Seq+1), in.Last})
	}
	for len(m.Ahead) > 0 && m.Ahead[0].First == m.Seq+1 {
		m.Seq, m.Ahead = m.Ahead[0].Last, m.Ahead[1:]
	}
	switch {
	case len(m.Ahead) == 0:
		m.GapSince = time.Time{}
	case m.GapSince.IsZero():
		m.GapSince = now
	}
}

// giveUp moves the mark over everything that is missing, and returns what that is.
func (m *runMark) giveUp() []Stretch {
	var out []Stretch
	for _, a := range m.Ahead {
		out = append(out, Stretch{m.Seq + 1, a.First - 1})
		m.Seq = a.Last
	}
	m.Ahead, m.GapSince = nil, time.Time{}
	return out
}

// join adds a stretch to ascending ones that lie apart.
func join(s []Stretch, in Stretch) []Stretch {
	at, _ := slices.BinarySearchFunc(s, in.First, func(x Stretch, first int64) int {
		if x.Last+1 < first {
			return -1
		}
		return 1
	})
	end := at
	for end < len(s) && s[end].First <= in.Last+1 {
		in.First, in.Last = min(in.First, s[end].First), max(in.Last, s[end].Last)
		end++
	}
	return slices.Concat(s[:at], []Stretch{in}, s[end:])
}
