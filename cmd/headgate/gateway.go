package main

import (
	"context"
	"errors"
)

type gatewayCmd struct{}

func (c *gatewayCmd) Run(_ context.Context) error { return errors.New("not built in yet") }
