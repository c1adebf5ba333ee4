package main

import (
	"context"
	"errors"
)

type migrateCmd struct{}

func (c *migrateCmd) Run(_ context.Context) error { return errors.New("not built in yet") }
