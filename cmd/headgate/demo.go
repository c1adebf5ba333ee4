package main

import (
	"context"
	"errors"
)

type demoCmd struct{}

func (c *demoCmd) Run(_ context.Context) error { return errors.New("not built in yet") }

type upstreamCmd struct{}
type trafficCmd struct{}
type runAsCmd struct{}

func (c *upstreamCmd) Run(_ context.Context) error { return errors.New("not built in yet") }
func (c *trafficCmd) Run(_ context.Context) error  { return errors.New("not built in yet") }
func (c *runAsCmd) Run(_ context.Context) error    { return errors.New("not built in yet") }
