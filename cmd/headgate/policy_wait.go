package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/headgate/headgate/web/api"
)

// publishing is one publication under way.
type publishing struct {
	client *apiClient
	flags  publishFlags
	out    output
	w      io.Writer
}

// post makes the call that publishes. A draft's ETag keeps a repeat from having a
// second effect, elsewhere a key does.
func (p publishing) post(ctx context.Context, path, etag string, body map[string]any) (out api.Published, err error) {
	in := apiCall{method: http.MethodPost, path: path, ifMatch: etag, body: body}
	if etag == "" {
		if in.key, err = newKey(); err != nil {
			return out, err
		}
	}
	_, err = p.client.send(ctx, in, &out)
	return out, err
}

// told waits where that was asked for, and tells how far a version has come.
func (p publishing) told(ctx context.Context, report publishedReport, version int64) error {
	report.Version = version
	if !p.flags.Wait {
		return p.out.show(p.w, report, func(w io.Writer) { say(w, "%s", report.what) })
	}
	if !p.out.JSON {
		say(p.w, "%s", report.what)
	}
	publication, err := p.wait(ctx, version)
	if err != nil {
		return &exitError{exitNotEverywhere, fmt.Errorf("v%d is stored, and it is not known how far it has come: %w", version, err)}
	}
	report.Publication = &publication
	if err := p.out.show(p.w, report, func(w io.Writer) { tellPublication(w, publication) }); err != nil {
		return err
	}
	return convergedOrNot(publication)
}

// lookEvery is how often the console is asked while gateways are waited for.
const lookEvery = 200 * time.Millisecond

// wait waits until all gateways that a version is for enforce it, or refuse it, or
// the time is over.
func (p publishing) wait(ctx context.Context, version int64) (out api.Publication, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.flags.Timeout+5*time.Second)
	defer cancel()
	for over := time.After(p.flags.Timeout); ; {
		err = p.client.do(ctx, http.MethodGet, fmt.Sprintf("/api/v1/policy/versions/%d/publication", version), nil, &out)
		if err != nil || out.Known && out.On+out.OnTrial+len(out.Nacks) >= out.Of {
			return out, err
		}
		select {
		case <-over:
			return out, nil
		case <-ctx.Done():
			return out, ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

// tellPublication says how far a version has come, and who is not there.
func tellPublication(w io.Writer, p api.Publication) {
	of := "gateways"
	if p.Canary {
		of = "gateways of the canary"
	}
	switch {
	case !p.Known:
		say(w, "It is not known which gateways enforce v%d: they cannot be asked.", p.Version)
		return
	case p.Of == 0:
		say(w, "No gateway is running that could enforce v%d.", p.Version)
	case p.Done:
		say(w, "%d of %d %s enforce v%d after %.0f ms.", p.On, p.Of, of, p.Version, p.AfterMS)
	default:
		say(w, "%d of %d %s enforce v%d.", p.On, p.Of, of, p.Version)
	}
	refused := map[string]api.NACK{}
	for _, n := range p.Nacks {
		refused[n.Gateway] = n
	}
	for _, g := range p.Gateways {
		n, said := refused[g.ID]
		switch {
		case !g.Target || g.On:
		case said:
			say(w, "  %s refuses v%d: %s: %s", g.ID, n.Version, n.Code, n.Detail)
		default:
			say(w, "  %s enforces v%d (%s)", g.ID, g.Version, g.Status)
		}
	}
}

// convergedOrNot is the error of a version that is not everywhere. That there is no
// gateway is none.
func convergedOrNot(p api.Publication) error {
	switch {
	case !p.Known:
		return &exitError{exitNotEverywhere, fmt.Errorf("v%d is stored, and it is not known which gateways enforce it", p.Version)}
	case p.On < p.Of:
		return &exitError{exitNotEverywhere, fmt.Errorf("v%d is stored, and %d of %d gateways do not enforce it", p.Version, p.Of-p.On, p.Of)}
	}
	return nil
}
