package gateway

import (
	"errors"
	"net/http"
	"time"

	"github.com/headgate/headgate/gateway/dimension"
	"github.com/headgate/headgate/policy/graphql"
	"github.com/headgate/headgate/usage"
)

// price finds the cost of a request and reads as much of its body as cost and
// limits need, once. False: the verdict has become a refusal.
func (g *Gateway) price(in *Inbound, v *Verdict) bool {
	view := g.viewOf(v.Policy.Compiled)
	pricer := view.pricers[v.Route]
	if in.Replay != nil && in.Replay.Logged {
		in.Replay.price(in, v, pricer != nil)
		return true
	}
	if in.Cost > 0 {
		pricer = nil
	}
	most := 0
	if view.body[v.Route] {
		most = dimension.MaxBody
	}
	if pricer != nil {
		most = graphql.MaxBodyBytes
	}
	if most > 0 && in.Body == nil && in.readBody != nil {
		body, err := in.readBody(int64(most))
		if err != nil {
			v.refuse(CodeBadRequest, usage.OutcomeInvalid)
			return false
		}
		in.Body = body
	}
	switch {
	case in.Cost > 0:
		v.Cost = in.Cost
	case pricer != nil:
		return g.priceQuery(pricer, in, v)
	}
	return true
}

// priceQuery computes the cost of a GraphQL request. Nothing that cannot be
// priced is forwarded.
func (g *Gateway) priceQuery(pricer *graphql.Pricer, in *Inbound, v *Verdict) bool {
	body := in.Body
	if body == nil {
		body = &Body{Whole: true}
	}
	if !body.Whole {
		v.refuse(CodeQueryTooComplex, usage.OutcomeInvalid)
		return false
	}
	if in.Header.Get("Upgrade") != "" { // what follows in the connection nobody would price
		v.Detail = "A query whose connection goes on in another protocol cannot be priced."
		v.refuse(CodeBadQuery, usage.OutcomeInvalid)
		return false
	}
	operations, err := graphql.ParseRequest(in.Method, body.ContentType, body.Peek, in.Query)
	var cost int64
	if err == nil {
		cost, err = pricer.Cost(operations)
	}
	switch {
	case err == nil:
		v.Cost = max(cost, 1)
		return true
	case errors.Is(err, graphql.ErrTooComplex), errors.Is(err, graphql.ErrOverMax):
		v.Detail = err.Error()
		v.refuse(CodeQueryTooComplex, usage.OutcomeInvalid)
	default:
		v.Detail = err.Error()
		v.refuse(CodeBadQuery, usage.OutcomeInvalid)
	}
	return false
}

// peekTime is how long the beginning of a body is waited for.
const peekTime = 10 * time.Second

// bodyReader reads the beginning of the request's body and puts it back.
func bodyReader(w http.ResponseWriter, r *http.Request) func(int64) (*Body, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	return func(most int64) (*Body, error) {
		control := http.NewResponseController(w)
		bounded := control.SetReadDeadline(time.Now().Add(peekTime)) == nil
		peek, whole, err := dimension.Body(r, most)
		if err != nil {
			return nil, err
		}
		if bounded {
			_ = control.SetReadDeadline(time.Time{})
		}
		return &Body{ContentType: dimension.ContentType(r.Header), Peek: peek, Whole: whole}, nil
	}
}
