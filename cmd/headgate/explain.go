package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/web/api"
)

// maxExplainInput bounds a key or receipt that is read from standard input, in bytes.
const maxExplainInput = 4096

// explainCmd is `headgate explain`: why somebody is refused, from a shell.
type explainCmd struct {
	Tenant   string `help:"Tenant: id, external id or name." placeholder:"TENANT"`
	Key      string `help:"Key by its kid. A whole key comes by --key-stdin." placeholder:"KID"`
	KeyStdin bool   `help:"Read a whole key from standard input: it is looked up in memory, and kept nowhere."`
	IP       string `help:"Client address." placeholder:"ADDRESS"`
	Account  string `help:"Value of the fields of bodies that limits count per, such as the name of a sign-in." placeholder:"ACCOUNT"`
	OfUser   string `help:"User of routes that know callers by it." placeholder:"USER"`
	Receipt  string `help:"Receipt from the body of a refusal; - reads it from standard input." placeholder:"RECEIPT"`
	Route    string `help:"Name of the route that is meant." placeholder:"ROUTE"`
	Request  string `help:"Or the request that is meant, such as \"POST /v1/search\"." placeholder:"REQUEST"`
	shell
}

// Run explains.
func (c *explainCmd) Run(ctx context.Context, k *kong.Kong) error {
	var p config.Problems
	notSecret(&p, "--key", c.Key)
	notSecret(&p, "--tenant", c.Tenant)
	asked := api.ExplainAsked{Tenant: c.Tenant, Key: c.Key, IP: c.IP, Account: c.Account, User: c.OfUser, Receipt: c.Receipt, Route: c.Route}
	if c.Request != "" {
		var found bool
		if asked.Method, asked.Path, found = strings.Cut(c.Request, " "); !found || !strings.HasPrefix(asked.Path, "/") {
			p.Add("--request", "must be a method and a path, such as \"POST /v1/search\"")
		}
	}
	if c.KeyStdin && (c.Key != "" || c.Receipt == "-") {
		p.Add("--key-stdin", "is given together with something else that names a key or reads standard input")
	}
	if !c.KeyStdin && c.Tenant+c.Key+c.IP+c.Account+c.OfUser+c.Receipt == "" {
		p.Add("--tenant", "or --key, --key-stdin, --ip, --account, --of-user or --receipt is needed")
	}
	s, err := c.begin(k, &p)
	if err != nil {
		return err
	}
	if c.KeyStdin || c.Receipt == "-" {
		to := &asked.Receipt
		if c.KeyStdin {
			to = &asked.Key
		}
		if *to, err = oneLine(); err != nil {
			return err
		}
	}
	var out api.Explanation
	return s.ask(ctx, apiCall{method: http.MethodPost, path: path("explain"), body: asked}, &out, func() { explained(s, &out) })
}

// oneLine reads one line from standard input.
func oneLine() (string, error) {
	in, err := openInput("-")
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }()
	raw, err := io.ReadAll(io.LimitReader(in, maxExplainInput))
	if err != nil {
		return "", fmt.Errorf("read standard input: %w", err)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n")
	return strings.TrimSpace(line), nil
}

// explained prints an explanation for people.
func explained(s *session, e *api.Explanation) {
	say(s.out, "%s", e.Sentence)
	if e.Why != "" {
		say(s.out, "%s: %s", e.Whose, e.Why)
	}
	if r := e.Receipt; r != nil {
		switch {
		case !r.Valid:
			say(s.out, "receipt: not valid. %s", r.Problem)
		case r.Agrees:
			say(s.out, "receipt: valid, of %s under v%d, refused by %s; recomputed to the same", r.At.Format(time.RFC3339), r.Version, r.Limit)
		default:
			say(s.out, "receipt: valid, of %s under v%d; %s", r.At.Format(time.RFC3339), r.Version, strings.Join(append(r.Differs, r.Problem), " "))
		}
	}
	if len(e.Ladder) > 0 {
		table := newTable(s.out, "limit in_force source used left wait state")
		for _, l := range e.Ladder {
			used, left := "unknown", "unknown"
			if l.Used != nil && l.Of != nil && l.Left != nil {
				used, left = fmt.Sprintf("%d/%d", *l.Used, *l.Of), fmt.Sprint(*l.Left)
			}
			wait := ""
			if l.WaitMS > 0 {
				wait = (time.Duration(l.WaitMS) * time.Millisecond).String()
			}
			table.row(l.Limit, l.Text, l.Source, used, left, wait, rungWord(&l))
		}
		table.end()
	}
	for _, n := range e.Notes {
		say(s.err, "%s", n)
	}
	for _, a := range e.Actions {
		say(s.err, "safe to do: %s", a.Text)
	}
	if e.Customer != "" {
		say(s.err, "for the customer: %s", e.Customer)
	}
}

func rungWord(l *api.Rung) string {
	switch {
	case l.Deciding:
		return "refuses"
	case l.Refuses:
		return "refuses, too"
	case l.Missing != "":
		return "needs " + l.Missing
	case l.Unlimited:
		return "unlimited"
	case l.Shadow:
		return "shadow"
	case !l.Known:
		return "unknown"
	}
	return ""
}
