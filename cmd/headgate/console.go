package main

import (
	"context"
	"errors"
)

type consoleCmd struct{}

func (c *consoleCmd) Run(_ context.Context) error { return errors.New("not built in yet") }
