package main

import (
	"context"
	"errors"
)

type userCmd struct{}

func (c *userCmd) Run(_ context.Context) error { return errors.New("not built in yet") }
