package web

import "github.com/headgate/headgate/views/ui"

// withTotal adds a total to a pager; "" when it is not known.
func withTotal(p ui.PagerProps, total string) ui.PagerProps {
	p.Total = total
	return p
}

// estimate is a total that is exact up to 10 000 and rounded above.
func estimate(n int64) string {
	if n <= 10_000 {
		return ui.Int(n)
	}
	return "about " + ui.Int(n/1000*1000)
}
