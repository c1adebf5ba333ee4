package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/db"
	"github.com/headgate/headgate/internal/config"
)

// userCmd is `headgate user`: operators and their tokens, from the shell of
// whoever has the database's address.
type userCmd struct {
	Create   userCreateCmd   `cmd:"" help:"Create an operator."`
	Password userPasswordCmd `cmd:"" help:"Give an operator a new password; ends their sessions."`
	Token    userTokenCmd    `cmd:"" help:"Issue an API token; it is printed once."`
}

// userDatabase is where operators are kept.
type userDatabase struct {
	DatabaseURL     string `help:"PostgreSQL of the console." placeholder:"URL"`
	DatabaseURLFile string `help:"File that holds the database URL." placeholder:"FILE"`
}

// with runs fn on the operators service, as the person at this shell.
func (c userDatabase) with(ctx context.Context, p *config.Problems, fn func(*console.Operators, console.Actor) error) error {
	dsn := config.Secret(p, "--database-url", c.DatabaseURL, c.DatabaseURLFile)
	p.Require("--database-url", dsn)
	if err := p.Err(); err != nil {
		return err
	}
	store, err := db.Open(ctx, dsn, 2)
	if err != nil {
		return err
	}
	defer store.Close()
	err = fn(console.NewOperators(console.Deps{Store: store}), shellActor())
	if e, ok := errors.AsType[*console.Error](err); ok && e.Code != console.CodeInternal && e.Code != console.CodeUnavailable {
		return plainError(e)
	}
	return err
}

// plainError is what an operator's error says, field by field.
func plainError(e *console.Error) error {
	lines := []string{e.Public}
	for _, f := range e.Fields {
		lines = append(lines, "  "+f.Field+": "+f.Message)
	}
	return errors.New(strings.Join(lines, "\n"))
}

func shellActor() console.Actor {
	name := "shell"
	if u, err := user.Current(); err == nil {
		name = "shell: " + u.Username
	}
	return console.Actor{Name: name, Role: console.RoleOwner, Via: console.ViaCLI}
}

type userCreateCmd struct {
	userDatabase
	Email        string `help:"E-mail address to sign in with." required:""`
	Name         string `help:"Name shown in the audit trail." required:""`
	Role         string `help:"viewer, support, auditor, editor, publisher, key-admin or owner." default:"viewer"`
	PasswordFile string `help:"File that holds the password; - reads standard input. Without it nobody can sign in." placeholder:"FILE"`
}

// Run creates the operator and prints the id.
func (c *userCreateCmd) Run(ctx context.Context) error {
	var p config.Problems
	password := passwordFrom(&p, c.PasswordFile)
	return c.with(ctx, &p, func(s *console.Operators, actor console.Actor) error {
		o, err := s.Create(ctx, actor, console.NewOperator{Email: c.Email, Name: c.Name, Role: console.Role(c.Role), Password: password})
		if err == nil {
			fmt.Println(o.ID)
		}
		return err
	})
}

type userPasswordCmd struct {
	userDatabase
	Email        string `help:"E-mail address of the operator." required:""`
	PasswordFile string `help:"File that holds the password; - reads standard input." placeholder:"FILE" required:""`
}

// Run sets the password.
func (c *userPasswordCmd) Run(ctx context.Context) error {
	var p config.Problems
	password := passwordFrom(&p, c.PasswordFile)
	return c.with(ctx, &p, func(s *console.Operators, actor console.Actor) error {
		o, err := s.ByEmail(ctx, c.Email)
		if err != nil {
			return err
		}
		return s.SetPassword(ctx, actor, o.ID, password)
	})
}

type userTokenCmd struct {
	userDatabase
	Email   string        `help:"E-mail address of the operator whose rights the token has." required:""`
	Name    string        `help:"What the token is for." required:""`
	Expires time.Duration `help:"How long the token is valid; 0 means until it is revoked."`
}

// Run prints the token, alone on the last line.
func (c *userTokenCmd) Run(ctx context.Context) error {
	var p config.Problems
	return c.with(ctx, &p, func(s *console.Operators, actor console.Actor) error {
		o, err := s.ByEmail(ctx, c.Email)
		if err != nil {
			return err
		}
		var expires *time.Time
		if c.Expires > 0 {
			at := time.Now().Add(c.Expires)
			expires = &at
		}
		token, _, err := s.IssueToken(ctx, actor, o.ID, c.Name, expires)
		if err == nil {
			fmt.Println(token)
		}
		return err
	})
}

// passwordFrom reads a password from a file or, for "-", from standard input.
func passwordFrom(p *config.Problems, file string) string {
	if file == "-" {
		b, err := io.ReadAll(io.LimitReader(os.Stdin, 4096))
		if err != nil {
			p.Add("--password-file", "%v", err)
		}
		return strings.TrimRight(string(b), "\r\n")
	}
	return config.Secret(p, "--password", "", file)
}
