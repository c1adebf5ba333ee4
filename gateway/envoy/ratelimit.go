package envoy

import (
	"context"
	"net/http"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headgate/headgate/gateway"
	"github.com/headgate/headgate/limiter"
)

const (
	okay = ratelimitv3.RateLimitResponse_OK
	over = ratelimitv3.RateLimitResponse_OVER_LIMIT
)

// rateLimits is envoy.service.ratelimit.v3.RateLimitService.
type rateLimits struct{ *Server }

// ShouldRateLimit decides one call. Its errors are InvalidArgument for what
// Envoy's configuration has to say differently, Unavailable where the HTTP doors
// answer 503, Canceled and DeadlineExceeded when the caller has left.
func (s *rateLimits) ShouldRateLimit(ctx context.Context, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	questions, err := s.questions(r)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	verdicts := s.decideAll(ctx, questions)
	if err := ctx.Err(); err != nil {
		endAll(verdicts) //nolint:contextcheck // what it held is freed although the caller has left
		return nil, status.FromContextError(err).Err()
	}
	return s.tell(questions, verdicts) //nolint:contextcheck // as above
}

// decideAll decides each descriptor. A call is admitted as a whole or refused as a
// whole, so where there are several they are looked at first: when one refuses,
// those that would pass are not charged. (Between the look and the charge others
// may charge, and two descriptors may draw from one bucket. Then what is charged
// before the refusal stays charged; one descriptor per call is always exact.)
func (s *rateLimits) decideAll(ctx context.Context, questions []question) []gateway.Verdict {
	verdicts := make([]gateway.Verdict, len(questions))
	if len(questions) == 1 {
		verdicts[0] = s.decide.Decide(ctx, &questions[0].Inbound)
		return verdicts
	}
	refused, start := false, s.now()
	for i := range questions {
		look := questions[i].Inbound
		look.Budget = s.left(start)
		look.Peek = true
		verdicts[i] = s.decide.Decide(ctx, &look)
		refused = refused || codeOf(&questions[i], &verdicts[i]) != okay
	}
	for i := range questions {
		q := &questions[i]
		// A refusal is decided as such, so that it is counted and remembered.
		if !q.Peek && (!refused || codeOf(q, &verdicts[i]) != okay) {
			q.Budget = s.left(start)
			verdicts[i] = s.decide.Decide(ctx, &q.Inbound)
		}
	}
	return verdicts
}

// leastBudget is what a decision gets when those before it in the call have used
// up the budget: Redis does not answer then, or will soon not be asked any more.
const leastBudget = time.Millisecond

// left is what is left of the budget of a call that began at start.
func (s *Server) left(start time.Time) time.Duration {
	return max(s.cfg.Budget-s.now().Sub(start), leastBudget)
}

// codeOf is the code of a descriptor. Adding nothing is within every limit that
// others have used up.
func codeOf(q *question, v *gateway.Verdict) ratelimitv3.RateLimitResponse_Code {
	if v.Allowed {
		return okay
	}
	if q.zero && usedUp(v.Reason) {
		return okay
	}
	return over
}

// usedUp reports whether a refusal is that of a limit with nothing left.
func usedUp(why limiter.Reason) bool {
	return why == limiter.ReasonLimit || why == limiter.ReasonQuota || why == limiter.ReasonConcurrency || why == limiter.ReasonFallback
}

// endAll frees what the requests of a call hold that will not go on.
func endAll(verdicts []gateway.Verdict) {
	for i := range verdicts {
		verdicts[i].End()
	}
}

// tell makes the answer. A certain refusal goes before a decision that nobody can
// make: that one is an error, which Envoy may be told to let pass.
func (s *rateLimits) tell(questions []question, verdicts []gateway.Verdict) (*ratelimitv3.RateLimitResponse, error) {
	out := &ratelimitv3.RateLimitResponse{OverallCode: okay, Statuses: make([]*ratelimitv3.RateLimitResponse_DescriptorStatus, len(verdicts))}
	first, unsure := 0, -1
	for i := range verdicts {
		code := codeOf(&questions[i], &verdicts[i])
		out.Statuses[i] = statusOf(code, &verdicts[i])
		switch {
		case code == okay:
			if out.OverallCode == okay && nearer(&verdicts[i], &verdicts[first]) {
				first = i
			}
		case verdicts[i].Status == http.StatusServiceUnavailable:
			unsure = i
		case out.OverallCode == okay || later(&verdicts[i], &verdicts[first]):
			out.OverallCode, first = over, i
		}
	}
	if out.OverallCode == over || unsure >= 0 {
		endAll(verdicts)
	}
	if out.OverallCode == okay && unsure >= 0 {
		return nil, unavailable(&verdicts[unsure])
	}
	s.fields(out, &questions[first], &verdicts[first])
	for i := range verdicts {
		if verdicts[i].Lease != "" {
			out.RequestHeadersToAdd = append(out.RequestHeadersToAdd, &corev3.HeaderValue{Key: fieldLease, Value: verdicts[i].Lease})
		}
	}
	return out, nil
}

// fields tells what the HTTP doors would send to the caller. What they tell an
// upstream stays out: Envoy adds the fields of this service to those that a caller
// may have forged. Authorization replaces them, and is the service for that.
func (s *rateLimits) fields(out *ratelimitv3.RateLimitResponse, q *question, v *gateway.Verdict) {
	if !v.Allowed && out.GetOverallCode() == okay { // a look at a limit that is used up: no refusal to tell
		looked := *v
		looked.Allowed, looked.Status = true, http.StatusOK
		v = &looked
	}
	origin, debug := q.Header.Get("Origin"), q.Header.Get(fieldDebug) == "1"
	var h http.Header
	if v.Allowed {
		h = s.decide.Fields(v, origin, debug)
	} else {
		answer := s.decide.Answer(v, origin, debug)
		h, out.RawBody = answer.Header, answer.Body
	}
	to := newFieldList(h)
	each(h, func(name, value string) {
		if !forUpstream(name) {
			to.add(name, value)
		}
	})
	if l, left, reset := v.Tightest(); l != nil && s.cfg.XHeaders {
		to.add("X-Ratelimit-Limit", strconv.FormatInt(l.Quota, 10))
		to.add("X-Ratelimit-Remaining", strconv.FormatInt(left, 10))
		to.add("X-Ratelimit-Reset", strconv.FormatInt(reset, 10))
	}
	out.ResponseHeadersToAdd = to.list
}

// unavailable is the error of a decision that nobody can make at the moment. It
// never says OK or OVER_LIMIT, so that failure_mode_deny and status_on_error of
// Envoy's filter decide.
func unavailable(v *gateway.Verdict) error {
	st := status.New(codes.Unavailable, string(v.Code))
	if v.RetryAfterSecs > 0 {
		if with, err := st.WithDetails(&errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: v.RetryAfterSecs}}); err == nil {
			st = with
		}
	}
	return st.Err()
}
