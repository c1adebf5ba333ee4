package envoy

import (
	"context"
	"net/http"
	"strconv"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
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
type rateLimits struct {
	*Server
	calls calls
	info  *grpc.UnaryServerInfo
	next  grpc.UnaryHandler
}

func newRateLimits(s *Server) *rateLimits {
	r := &rateLimits{Server: s}
	r.info = &grpc.UnaryServerInfo{Server: r, FullMethod: ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName}
	r.next = func(ctx context.Context, c any) (any, error) {
		return c, r.shouldRateLimit(ctx, c.(*call)) //nolint:forcetypeassert // serve made it
	}
	return r
}

// register adds the service: the one of the API's own package, with calls that are used
// again in place of its messages.
func (s *rateLimits) register(to *grpc.Server) {
	service := ratelimitv3.RateLimitService_ServiceDesc
	service.HandlerType = (*any)(nil)
	service.Methods = []grpc.MethodDesc{{MethodName: service.Methods[0].MethodName, Handler: s.serve}}
	to.RegisterService(&service, s)
}

// serve answers one call. The codec ends it when it has written the answer; a call that
// fails is left to the garbage collector.
func (s *rateLimits) serve(_ any, ctx context.Context, read func(any) error, guard grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // as grpc.MethodDesc has it
	c := s.calls.get()
	if err := read(c); err != nil {
		return nil, err
	}
	return guard(ctx, c, s.info, s.next)
}

// shouldRateLimit decides one call. Its errors are InvalidArgument for what
// Envoy's configuration has to say differently, Unavailable where the HTTP doors
// answer 503, Canceled and DeadlineExceeded when the caller has left.
func (s *rateLimits) shouldRateLimit(ctx context.Context, c *call) error {
	if err := s.question(c); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	s.decideAll(ctx, c.questions, c.verdicts)
	if err := ctx.Err(); err != nil {
		endAll(c.verdicts) //nolint:contextcheck // what it held is freed although the caller has left
		return status.FromContextError(err).Err()
	}
	return s.tell(c) //nolint:contextcheck // as above
}

// decideAll decides each descriptor. A call is admitted as a whole or refused as a
// whole, so where there are several they are looked at first: when one refuses,
// those that would pass are not charged. (Between the look and the charge others
// may charge, and two descriptors may draw from one bucket. Then what is charged
// before the refusal stays charged; one descriptor per call is always exact.)
func (s *rateLimits) decideAll(ctx context.Context, questions []question, verdicts []gateway.Verdict) {
	if len(questions) == 1 {
		s.decide.DecideInto(ctx, &questions[0].Inbound, &verdicts[0])
		return
	}
	refused, start := false, s.now()
	for i := range questions {
		look := questions[i].Inbound
		look.Budget = s.left(start)
		look.Peek = true
		s.decide.DecideInto(ctx, &look, &verdicts[i])
		refused = refused || codeOf(&questions[i], &verdicts[i]) != okay
	}
	for i := range questions {
		q := &questions[i]
		// A refusal is decided as such, so that it is counted and remembered.
		if !q.Peek && (!refused || codeOf(q, &verdicts[i]) != okay) {
			q.Budget = s.left(start)
			s.decide.DecideInto(ctx, &q.Inbound, &verdicts[i])
		}
	}
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

// tell writes the answer. A certain refusal goes before a decision that nobody can
// make: that one is an error, which Envoy may be told to let pass.
func (s *rateLimits) tell(c *call) error {
	overall, first, unsure := s.sum(c)
	if overall == over || unsure >= 0 {
		endAll(c.verdicts)
	}
	if overall == okay && unsure >= 0 {
		return unavailable(&c.verdicts[unsure])
	}
	out := &c.answer
	out.begin(overall)
	for i := range c.verdicts {
		out.status(statusOf(codeOf(&c.questions[i], &c.verdicts[i]), &c.verdicts[i]))
	}
	s.fields(out, overall, &c.questions[first], &c.verdicts[first])
	for i := range c.verdicts {
		if token := c.verdicts[i].Lease; token != "" {
			out.lease(token)
		}
	}
	return nil
}

// sum is the code of the whole call, the descriptor that its caller is told of, and one
// that nobody can decide; -1: none.
func (s *rateLimits) sum(c *call) (overall ratelimitv3.RateLimitResponse_Code, first, unsure int) {
	overall, unsure = okay, -1
	for i := range c.verdicts {
		v := &c.verdicts[i]
		switch code := codeOf(&c.questions[i], v); {
		case code == okay:
			if overall == okay && nearer(v, &c.verdicts[first]) {
				first = i
			}
		case v.Status == http.StatusServiceUnavailable:
			unsure = i
		case overall == okay || later(v, &c.verdicts[first]):
			overall, first = over, i
		}
	}
	return overall, first, unsure
}

// fields tells what the HTTP doors would send to the caller.
func (s *rateLimits) fields(out *answer, overall ratelimitv3.RateLimitResponse_Code, q *question, v *gateway.Verdict) {
	if !v.Allowed && overall == okay { // a look at a limit that is used up: no refusal to tell
		looked := *v
		looked.Allowed, looked.Status = true, http.StatusOK
		v = &looked
	}
	origin, debug := "", false
	if q.Header != nil {
		origin, debug = q.Header.Get("Origin"), q.Header.Get(fieldDebug) == "1"
	}
	s.decide.WriteFields(out, v, origin, debug)
	if l, left, reset := v.Tightest(); l != nil && s.cfg.XHeaders {
		out.Set("X-Ratelimit-Limit", strconv.FormatInt(l.Quota, 10))
		out.Set("X-Ratelimit-Remaining", strconv.FormatInt(left, 10))
		out.Set("X-Ratelimit-Reset", strconv.FormatInt(reset, 10))
	}
	out.refusal(v)
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
