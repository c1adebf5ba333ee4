package db

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headgate/headgate/console"
)

// conflicts says what a broken constraint means to the user.
func conflicts(constraint string) string {
	texts := map[string]string{
		"tenants_external_id":              "Another tenant has this external id.",
		"rotations_one_open":               "A rotation of this credential is running already.",
		"key_versions_one_active":          "The credential has an active key already.",
		"key_versions_one_retiring":        "The credential has a retiring key already.",
		"operators_email":                  "Another operator has this e-mail address.",
		"operators_last_owner":             "This is the last owner; make someone else an owner first.",
		"policy_head_grows":                "Someone else has published in the meantime.",
		"rollouts_running":                 "A version is on trial already: promote or stop it first.",
		"rollouts_final":                   "The trial has ended.",
		"policy_versions_pkey":             "Someone else has published in the meantime.",
		"overrides_one_live":               "Somebody else has changed this limit of the tenant at the same time; please try again.",
		"overrides_final":                  "It has ended.",
		"tenants_final_state":              "The tenant has been deleted.",
		"key_versions_final_state":         "The key has ended.",
		"rotations_final_state":            "The rotation is over.",
		"audit_events_no_fork":             "Something else changed at the same time; please try again.",
		"bulk_jobs_once":                   "The same request is running already.",
		"bulk_jobs_final_state":            "The job is over.",
		"idempotency_keys_pkey":            "The same request is running already.",
		"policy_versions_rollback_of_fkey": "There is no such version.",
	}
	return texts[constraint]
}

// conflictField says at which input field a conflict is shown.
func conflictField(constraint, text string) []console.FieldError {
	switch constraint {
	case "tenants_external_id":
		return []console.FieldError{{Field: "external_id", Message: text}}
	case "operators_email":
		return []console.FieldError{{Field: "email", Message: text}}
	}
	return nil
}

// translate turns an error of PostgreSQL into console's words. Errors that are
// *console.Error already stay as they are.
func translate(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*console.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return unavailable(err) // also when the server is there and lets nobody in
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return translatePg(e, err)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return &console.Error{Code: console.CodeNotFound, Public: "There is no such thing.", Cause: err}
	}
	if isNetwork(err) || pgconn.SafeToRetry(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return unavailable(err)
	}
	return &console.Error{Code: console.CodeInternal, Public: "Something went wrong.", Cause: err}
}

func translatePg(e *pgconn.PgError, err error) error {
	switch e.Code {
	case "23505", "23514", "23503":
		if text := conflicts(e.ConstraintName); text != "" {
			return &console.Error{Code: console.CodeConflict, Public: text, Cause: err, Fields: conflictField(e.ConstraintName, text)}
		}
		if e.Code == "23505" {
			return &console.Error{Code: console.CodeConflict, Public: "This exists already.", Cause: err}
		}
	case "22021", "22P05":
		return &console.Error{Code: console.CodeInvalid, Public: "The text has characters that cannot be stored.", Cause: err}
	case "40001", "40P01":
		return &console.Error{Code: console.CodeConflict, Public: "Something else changed at the same time; please try again.", Cause: err}
	case "55P03", "57014", "57P01", "57P02", "57P03":
		return unavailable(err)
	case "25006":
		return &console.Error{
			Code: console.CodeUnavailable, Public: "The database takes no changes at the moment; it can only be read. Nothing was changed.",
			Cause: err,
		}
	}
	switch e.Code[:2] {
	case "08", "53":
		return unavailable(err)
	}
	return &console.Error{Code: console.CodeInternal, Public: "Something went wrong.", Cause: err}
}

func unavailable(err error) error {
	return &console.Error{Code: console.CodeUnavailable, Public: "The database cannot be used at the moment; nothing was changed.", Cause: err}
}

// unsure is a commit whose answer did not come.
func unsure(err error) error {
	return &console.Error{
		Code: console.CodeUnavailable, Public: "The database stopped answering while this was stored. It may have been stored: look before you try again.",
		Cause: err, Unsure: true,
	}
}

func isNetwork(err error) bool {
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// absent gives an absent row its name.
func absent(err error, what string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return &console.Error{Code: console.CodeNotFound, Public: "There is no such " + what + ".", Cause: err}
	}
	return err
}
