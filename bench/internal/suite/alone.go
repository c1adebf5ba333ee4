package suite

import (
	"context"
	"time"

	"github.com/headgate/headgate/bench/internal/contend"
	"github.com/headgate/headgate/bench/internal/meas"
)

// pair measures two contenders by one caller in turn, so that both meet the same
// moods of the machine: a lone caller's round trip depends on where the kernel
// happens to run client and server.
type pair struct {
	first, second             contend.Decide
	firstTimes, secondTimes   meas.Hist
	ratios                    []float64
	firstMedian, secondMedian []float64 // ns
}

// op makes one decision with each.
func (p *pair) op(ctx context.Context, _ int, i uint64) (meas.Tally, error) {
	subject := int(i * 7919 % contend.Subjects)
	began := time.Now()
	if _, err := p.first(ctx, subject); err != nil {
		return meas.Tally{}, err
	}
	between := time.Now()
	if _, err := p.second(ctx, subject); err != nil {
		return meas.Tally{}, err
	}
	p.firstTimes.Record(between.Sub(began))
	p.secondTimes.Record(time.Since(between))
	return meas.Tally{Decisions: 2, Admitted: 2}, nil
}

// end closes a round.
func (p *pair) end(context.Context, *meas.Round) error {
	first, second := float64(p.firstTimes.Quantile(.5)), float64(p.secondTimes.Quantile(.5))
	p.firstMedian, p.secondMedian = append(p.firstMedian, first), append(p.secondMedian, second)
	if second > 0 {
		p.ratios = append(p.ratios, first/second)
	}
	p.firstTimes, p.secondTimes = meas.Hist{}, meas.Hist{}
	return nil
}
