package console

import (
	"context"
	"net/mail"
	"strings"
	"unicode/utf8"
)

const (
	minPassword = 10
	maxPassword = 200 // argon2id reads all of it
)

// Operators manages the people who use the console, and their API tokens.
type Operators struct {
	d      Deps
	guard  *guard
	hasher *hasher
}

// NewOperators returns the operators service.
func NewOperators(d Deps) *Operators {
	d = d.withDefaults()
	return &Operators{d: d, guard: newGuard(d.Now), hasher: newHasher()}
}

// NewOperator is what is said of a new operator. Without a password nobody can
// sign in as them; tokens work.
type NewOperator struct {
	Email    string
	Name     string
	Role     Role
	Password string
}

// Create makes an operator.
func (s *Operators) Create(ctx context.Context, actor Actor, in NewOperator) (Operator, error) {
	if err := actor.need(PermManageOperators); err != nil {
		return Operator{}, err
	}
	var p problems
	o := Operator{Email: p.email(in.Email), Name: p.name("name", in.Name), Role: in.Role}
	if !in.Role.Valid() {
		p.add("role", "Choose one of %s.", roleNames())
	}
	p.password(in.Password)
	err := p.err()
	if err != nil {
		return Operator{}, err
	}
	if o.ID, err = s.d.newID("opr"); err != nil {
		return Operator{}, err
	}
	if in.Password != "" {
		if o.PasswordHash, err = s.hasher.hash(ctx, in.Password); err != nil {
			return Operator{}, err
		}
	}
	err = s.d.Store.InTx(ctx, func(tx Tx) error {
		o.CreatedAt = s.d.now()
		if err := tx.InsertOperator(ctx, o); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, o.CreatedAt, event{action: "operator.create", object: "operator", objectID: o.ID, after: viewOperator(o)})
	})
	return o, err
}

func roleNames() string {
	var names []string
	for _, r := range Roles() {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}

func (p *problems) email(s string) string {
	s = strings.TrimSpace(s)
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || a.Name != "" || len(s) > 254 || strings.ContainsFunc(s, hidden) {
		p.add("email", "This is not an e-mail address.")
	}
	return s
}

func (p *problems) password(s string) {
	n := utf8.RuneCountInString(s)
	if s != "" && (n < minPassword || len(s) > maxPassword) {
		p.add("password", "Between %d characters and %d bytes.", minPassword, maxPassword)
	}
}

// List returns all operators by e-mail address.
func (s *Operators) List(ctx context.Context) (out []Operator, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.Operators(ctx)
		return err
	})
	return out, err
}

// Get returns one operator.
func (s *Operators) Get(ctx context.Context, id string) (o Operator, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		o, err = tx.Operator(ctx, id)
		return err
	})
	return o, err
}

// ByEmail returns the operator with an e-mail address, whatever its case.
func (s *Operators) ByEmail(ctx context.Context, email string) (o Operator, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		o, err = tx.OperatorByEmail(ctx, strings.TrimSpace(email))
		return err
	})
	return o, err
}

// SetRole changes what an operator may do, from their next request on. All
// their sessions end. The last owner stays one.
func (s *Operators) SetRole(ctx context.Context, actor Actor, id string, role Role) error {
	if !role.Valid() {
		return invalid(FieldError{Field: "role", Message: "Choose one of " + roleNames() + "."})
	}
	return s.change(ctx, actor, id, "operator.set-role", func(o *Operator) error {
		o.Role = role
		return nil
	})
}

// Disable keeps an operator out, from their next request on. The last owner stays.
func (s *Operators) Disable(ctx context.Context, actor Actor, id string) error {
	return s.change(ctx, actor, id, "operator.disable", func(o *Operator) error {
		if o.DisabledAt != nil {
			return conflict("The operator is disabled already.")
		}
		now := s.d.now()
		o.DisabledAt = &now
		return nil
	})
}

// SetPassword gives an operator a new password and ends all their sessions.
func (s *Operators) SetPassword(ctx context.Context, actor Actor, id, password string) error {
	if err := actor.need(PermManageOperators); err != nil {
		return err // before the hash, which is dear
	}
	var p problems
	p.password(password)
	if password == "" {
		p.add("password", "This must not be empty.")
	}
	if err := p.err(); err != nil {
		return err
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return err
	}
	return s.change(ctx, actor, id, "operator.set-password", func(o *Operator) error {
		o.PasswordHash = hash
		return nil
	})
}

func (s *Operators) change(ctx context.Context, actor Actor, id, action string, fn func(*Operator) error) error {
	if err := actor.need(PermManageOperators); err != nil {
		return err
	}
	return s.d.Store.InTx(ctx, func(tx Tx) error {
		o, err := tx.LockOperator(ctx, id)
		if err != nil {
			return err
		}
		before := o
		if err := fn(&o); err != nil {
			return err
		}
		if err := tx.UpdateOperator(ctx, o); err != nil {
			return err
		}
		if _, err := tx.DeleteSessionsOf(ctx, id, ""); err != nil {
			return err
		}
		return s.d.record(ctx, tx, actor, s.d.now(), event{
			action: action, object: "operator", objectID: id, before: viewOperator(before), after: viewOperator(o),
		})
	})
}
