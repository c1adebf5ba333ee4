package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/policy/importer"
)

// policyImportCmd makes a policy of other programs' files.
type policyImportCmd struct {
	Envoy   importEnvoyCmd   `cmd:"" help:"Of a configuration of envoyproxy/ratelimit."`
	OpenAPI importOpenAPICmd `cmd:"" name:"openapi" help:"Of the paths of an OpenAPI document (3.0 or 3.1): a route for each."`
}

// importFlags are where an import goes.
type importFlags struct {
	File  string `arg:"" help:"File to read; - is standard input."`
	Out   string `help:"File to write instead of standard output; it must not exist yet." short:"o" placeholder:"FILE"`
	Force bool   `help:"Overwrite it."`
}

// importEnvoyCmd imports limits.
type importEnvoyCmd struct{ importFlags }

// importOpenAPICmd imports routes.
type importOpenAPICmd struct {
	importFlags
	Into string `help:"Policy file that the routes are added to; those whose names it has are left as they are." placeholder:"FILE"`
}

// Run imports an Envoy configuration.
func (c *importEnvoyCmd) Run(_ context.Context, k *kong.Kong) error {
	src, err := readFile(c.File)
	if err != nil {
		return err
	}
	doc, notes, err := importer.EnvoyRateLimit(src)
	if err != nil {
		return c.unread(k, err)
	}
	return c.write(k, doc, origin{}, notes)
}

// Run imports an OpenAPI document.
func (c *importOpenAPICmd) Run(_ context.Context, k *kong.Kong) error {
	src, err := readFile(c.File)
	if err != nil {
		return err
	}
	routes, notes, err := importer.OpenAPI(src)
	if err != nil {
		return c.unread(k, err)
	}
	doc, from := &policy.Document{APIVersion: "headgate/v1"}, origin{}
	if c.Into != "" {
		if doc, from, err = readLoose(c.Into); err != nil {
			return err
		}
	}
	for _, r := range routes {
		if slices.ContainsFunc(doc.Routes, func(have policy.Route) bool { return have.Name == r.Name }) {
			notes = append(notes, importer.Note{Message: fmt.Sprintf("route %s is there already and stays as it is", r.Name)})
			continue
		}
		doc.Routes = append(doc.Routes, r)
	}
	return c.write(k, doc, from, notes)
}

// readLoose reads a document that may have problems, and its note.
func readLoose(name string) (*policy.Document, origin, error) {
	src, err := readFile(name)
	if err != nil {
		return nil, origin{}, err
	}
	doc, report := policy.ParseLoose(src)
	if doc == nil {
		return nil, origin{}, &exitError{exitProblems, fmt.Errorf("%s cannot be read as a policy:\n%w", name, report)}
	}
	return doc, originOf(src), nil
}

// unread tells why a file cannot be imported.
func (c importFlags) unread(k *kong.Kong, err error) error {
	if report, ok := errors.AsType[policy.Report](err); ok {
		printProblems(k.Stdout, c.File, report)
		return problemsError("%s cannot be imported: %s", c.File, counted(len(report.Problems), "problem"))
	}
	return problemsError("%s cannot be imported: %w", c.File, err)
}

// write writes the document, with the note of the one that it was added to, and tells on standard error what it does not show.
func (c importFlags) write(k *kong.Kong, doc *policy.Document, from origin, notes []importer.Note) error {
	if _, err := os.Lstat(c.Out); c.Out != "" && err == nil && !c.Force {
		return fmt.Errorf("%s exists already: --force overwrites it", c.Out)
	}
	text := doc.YAML()
	if from.known {
		text = from.noted(text)
	}
	if err := writeOut(k.Stdout, c.Out, text); err != nil {
		return err
	}
	todo := 0
	for _, n := range notes {
		kind := "note"
		if n.Todo {
			kind = "to do"
			todo++
		}
		say(k.Stderr, "%s: %s: %s", placeOf(c.File, n.Line), kind, pathed(n.Path, n.Message))
	}
	if todo > 0 {
		say(k.Stderr, "%s to decide before it can be published; headgate policy validate names the places.", counted(todo, "thing"))
	}
	return nil
}
