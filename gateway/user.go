package gateway

import (
	"errors"
	"strings"

	"github.com/headgate/headgate/gateway/dimension"
	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

// callerUser is the user behind a request, once asked.
type callerUser struct {
	asked bool
	id    string // "" when there is none
	err   error  // why none can be told
}

var errUsersUnavailable = errors.New("users cannot be told apart at the moment")

// userOf finds the user of a request, once. Where only a limit asks, a user that
// cannot be verified is one that is missing.
func (g *Gateway) userOf(in *Inbound, v *Verdict, u *callerUser) *callerUser {
	if u.asked {
		return u
	}
	u.asked = true
	if in.UserKnown {
		u.id = in.User
		return u
	}
	view := g.viewOf(v.Policy.Compiled)
	if view.users == nil {
		u.err = errUsersUnavailable
		return u
	}
	trusted := in.PeerTrusted || in.ClientKnown || trusts(v.Policy.Compiled.Document.ClientIP, plain(in.Peer))
	id, present, err := view.users.Of(in.Header, trusted, g.cfg.Now())
	if u.err = err; err == nil && present {
		u.id = id
	}
	return u
}

// admitUser verifies the user of a route that knows callers by it.
func (g *Gateway) admitUser(in *Inbound, v *Verdict, c *caller) bool {
	u := g.userOf(in, v, &c.user)
	switch {
	case errors.Is(u.err, errUsersUnavailable), errors.Is(u.err, dimension.ErrKeys):
		g.unavailable(v)
	case u.err != nil:
		g.refuseCredential(CodeInvalidCredential, v.Policy.Compiled.Document.Credentials.Invalid, v)
	case u.id == "":
		v.refuse(CodeMissingCredential, usage.OutcomeUnauthorized)
	default:
		v.User = u.id
		return true
	}
	return false
}

// userHeader is the field that names the user by a trusted proxy's word; "" when
// users are found otherwise.
func userHeader(doc *policy.Document) string {
	if doc.User == nil {
		return ""
	}
	return doc.User.Header
}

// fieldText reports whether text can stand in a header field as it is.
func fieldText(text string) bool {
	return text != "" && len(text) <= 256 && strings.IndexFunc(text, func(r rune) bool { return r < 0x20 || r > 0x7e }) < 0 &&
		text == strings.TrimSpace(text)
}
