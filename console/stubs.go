package console

import (
	"context"
	"errors"
	"time"
)

var errPending = errors.New("pending")

// --- operators
type Operators struct{ d Deps }

func NewOperators(d Deps) *Operators { return &Operators{d: d.withDefaults()} }

type NewOperator struct {
	Email, Name string
	Role        Role
	Password    string
}

func (s *Operators) SignIn(ctx context.Context, email, password, ip string) (Operator, error) {
	return Operator{}, errPending
}
func (s *Operators) Create(ctx context.Context, actor Actor, in NewOperator) (Operator, error) {
	return Operator{}, errPending
}
func (s *Operators) List(ctx context.Context) ([]Operator, error) { return nil, errPending }
func (s *Operators) Get(ctx context.Context, id string) (Operator, error) {
	return Operator{}, errPending
}
func (s *Operators) SetRole(ctx context.Context, actor Actor, id string, role Role) error {
	return errPending
}
func (s *Operators) Disable(ctx context.Context, actor Actor, id string) error { return errPending }

// IssueToken returns the token once, as hg_ops_….
func (s *Operators) IssueToken(ctx context.Context, actor Actor, operatorID, name string, expiresAt *time.Time) (token string, row APIToken, err error) {
	return "", APIToken{}, errPending
}
func (s *Operators) RevokeToken(ctx context.Context, actor Actor, kid string) error {
	return errPending
}

// Authenticate turns an API token into an actor (Via api) with the operator's present role.
func (s *Operators) Authenticate(ctx context.Context, token string) (Actor, error) {
	return Actor{}, errPending
}
