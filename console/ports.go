package console

import "context"

// Store is the database. All errors that a Store returns for reasons a user can
// understand are *Error.
type Store interface {
	// InTx runs fn in one transaction and repeats it when the database asks for
	// that (serialization failure, deadlock); fn must have no other effects.
	InTx(ctx context.Context, fn func(Tx) error) error
	// Read runs fn on a connection without a transaction around it.
	Read(ctx context.Context, fn func(Tx) error) error
}

// Tx is what a transaction can do; one part an aggregate.
type Tx interface{}
