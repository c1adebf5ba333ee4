package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/headgate/headgate/console"
)

func TestTranslate_EachFailureHasOneMeaning(t *testing.T) {
	t.Parallel()
	pg := func(code, constraint string) error {
		return fmt.Errorf("insert tenant: %w", &pgconn.PgError{Code: code, ConstraintName: constraint, Message: "SECRET of the database"})
	}
	for name, c := range map[string]struct {
		err  error
		want console.Code
	}{
		"unique, known":         {pg("23505", "operators_email"), console.CodeConflict},
		"unique, unknown":       {pg("23505", "some_index"), console.CodeConflict},
		"trigger's check":       {pg("23514", "tenants_final_state"), console.CodeConflict},
		"check, unknown":        {pg("23514", "tenants_name_check"), console.CodeInternal},
		"reference, known":      {pg("23503", "policy_versions_rollback_of_fkey"), console.CodeConflict},
		"reference, unknown":    {pg("23503", "some_fkey"), console.CodeInternal},
		"unstorable character":  {pg("22021", ""), console.CodeInvalid},
		"unstorable JSON":       {pg("22P05", ""), console.CodeInvalid},
		"serialization failure": {pg("40001", ""), console.CodeConflict},
		"deadlock":              {pg("40P01", ""), console.CodeConflict},
		"lock timeout":          {pg("55P03", ""), console.CodeUnavailable},
		"cancelled":             {pg("57014", ""), console.CodeUnavailable},
		"shutting down":         {pg("57P01", ""), console.CodeUnavailable},
		"starting up":           {pg("57P03", ""), console.CodeUnavailable},
		"read only":             {pg("25006", ""), console.CodeUnavailable},
		"connection lost":       {pg("08006", ""), console.CodeUnavailable},
		"disk full":             {pg("53100", ""), console.CodeUnavailable},
		"too many connections":  {pg("53300", ""), console.CodeUnavailable},
		"syntax":                {pg("42601", ""), console.CodeInternal},
		"missing table":         {pg("42P01", ""), console.CodeInternal},
		"no row":                {pgx.ErrNoRows, console.CodeNotFound},
		"end of stream":         {io.ErrUnexpectedEOF, console.CodeUnavailable},
		"closed connection":     {net.ErrClosed, console.CodeUnavailable},
		"out of time":           {context.DeadlineExceeded, console.CodeUnavailable},
		"refused":               {&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, console.CodeUnavailable},
		"anything else":         {errors.New("SECRET of the program"), console.CodeInternal},
	} {
		got, ok := errors.AsType[*console.Error](translate(c.err))
		if !ok || got.Code != c.want {
			t.Errorf("%s is %v, want %s", name, got, c.want)
			continue
		}
		if !errors.Is(got, c.err) || strings.Contains(got.Public, "SECRET") || got.Public == "" {
			t.Errorf("%s: the user is told %q, the cause is %v", name, got.Public, got.Cause)
		}
	}
	if translate(nil) != nil {
		t.Error("nothing became an error")
	}
	own := &console.Error{Code: console.CodeForbidden, Public: "no"}
	if got := translate(fmt.Errorf("x: %w", own)); !errors.Is(got, own) || got.Error() != "x: "+own.Error() {
		t.Error("a service's own error was changed")
	}
}

func TestTranslate_ConflictStandsAtItsField(t *testing.T) {
	t.Parallel()
	for constraint, field := range map[string]string{"tenants_external_id": "external_id", "operators_email": "email", "rotations_one_open": ""} {
		e, _ := errors.AsType[*console.Error](translate(&pgconn.PgError{Code: "23505", ConstraintName: constraint}))
		switch {
		case e == nil || e.Code != console.CodeConflict:
			t.Errorf("%s is %v", constraint, e)
		case field == "" && len(e.Fields) != 0, field != "" && (len(e.Fields) != 1 || e.Fields[0].Field != field || e.Fields[0].Message != e.Public):
			t.Errorf("%s: fields %v, want %q", constraint, e.Fields, field)
		}
	}
}

// A constraint that is renamed in the schema would turn a clear message into an
// internal error, so that each one told of must be there.
func TestTranslate_EveryConstraintItKnowsIsInTheSchema(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("../migrations")
	if err != nil {
		t.Fatal(err)
	}
	var schema strings.Builder
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".sql") {
			text, err := os.ReadFile("../migrations/" + entry.Name())
			if err != nil {
				t.Fatal(err)
			}
			schema.Write(text)
		}
	}
	source, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^\t\t"([a-z_]+)":`).FindAllStringSubmatch(string(source), -1)
	if len(names) < 10 {
		t.Fatalf("only %v were found", names)
	}
	for _, m := range names {
		name := strings.TrimSuffix(m[1], "_state")           // as the trigger tenants_final calls tenants_final_state
		table, generated := strings.CutSuffix(name, "_pkey") // PostgreSQL names these itself
		if !generated {
			table, generated = strings.CutSuffix(name, "_rollback_of_fkey")
		}
		if !strings.Contains(schema.String(), name) && !(generated && strings.Contains(schema.String(), "CREATE TABLE "+table+" ")) {
			t.Errorf("the schema has no %s", name)
		}
	}
}
