package console

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate/policy"
	"github.com/headgate/headgate/usage"
)

var errPending = errors.New("pending")

// --- fleet
type Fleet struct{ d Deps }

func NewFleet(d Deps) *Fleet { return &Fleet{d: d.withDefaults()} }

// Status of a replica, computed when it is read.
type Status string

const (
	StatusInSync Status = "in-sync"
	StatusBehind Status = "behind"
	StatusNACKed Status = "nacked"
	StatusSilent Status = "silent"
	StatusGone   Status = "gone"
	StatusAhead  Status = "ahead"
)

// Replica is a heartbeat with what the console makes of it.
type Replica struct {
	policy.Heartbeat
	Status Status
	Age    time.Duration
}

// Convergence says how many replicas have applied something.
type Convergence struct {
	On, Of int
	After  time.Duration
	Nacks  []ReplicaNACK
	Known  bool // false when Redis could not be asked: On and Of mean nothing
}

type ReplicaNACK struct {
	Replica string
	NACK    policy.NACK
}

// Health is a cached snapshot; reading it never waits.
type Health struct {
	At               time.Time
	RedisUp          bool
	RedisSince       time.Time // since when RedisUp has this value
	RedisRTT         time.Duration
	RedisError       string
	PostgresUp       bool
	PostgresSince    time.Time
	Version          int64 // head; 0 when none
	Digest           string
	FleetKnown       bool // false while Redis is down: the fields below are the last known
	FleetAt          time.Time
	Replicas         []Replica
	InSync, Of       int // Of leaves out those that are gone
	Nacked, Degraded int
	DecisionsPerS    float64
	RefusedPerS      float64
	FallbackPerS     float64
	Drafts           int
	OutboxPending    int
	StampAge         time.Duration
}

func (s *Fleet) Run(ctx context.Context) error                   { <-ctx.Done(); return nil }
func (s *Fleet) Replicas(ctx context.Context) ([]Replica, error) { return nil, errPending }
func (s *Fleet) WaitVersion(ctx context.Context, n int64, timeout time.Duration) Convergence {
	return Convergence{}
}
func (s *Fleet) WaitPlace(ctx context.Context, p policy.Place, timeout time.Duration) Convergence {
	return Convergence{}
}
func (s *Fleet) WaitChange(ctx context.Context, c Change, timeout time.Duration) Convergence {
	return Convergence{}
}
func (s *Fleet) Health(ctx context.Context) Health { return Health{} }

// --- operators
type Operators struct{ d Deps }

func NewOperators(d Deps) *Operators { return &Operators{d: d.withDefaults()} }

type NewOperator struct {
	Email, Name string
	Role        Role
	Password    string
}

func (s *Operators) SignIn(ctx context.Context, email, password, ip string) (Operator, error) {
	return Operator{}, errPending
}
func (s *Operators) Create(ctx context.Context, actor Actor, in NewOperator) (Operator, error) {
	return Operator{}, errPending
}
func (s *Operators) List(ctx context.Context) ([]Operator, error) { return nil, errPending }
func (s *Operators) Get(ctx context.Context, id string) (Operator, error) {
	return Operator{}, errPending
}
func (s *Operators) SetRole(ctx context.Context, actor Actor, id string, role Role) error {
	return errPending
}
func (s *Operators) Disable(ctx context.Context, actor Actor, id string) error { return errPending }

// IssueToken returns the token once, as hg_ops_….
func (s *Operators) IssueToken(ctx context.Context, actor Actor, operatorID, name string, expiresAt *time.Time) (token string, row APIToken, err error) {
	return "", APIToken{}, errPending
}
func (s *Operators) RevokeToken(ctx context.Context, actor Actor, kid string) error {
	return errPending
}

// Authenticate turns an API token into an actor (Via api) with the operator's present role.
func (s *Operators) Authenticate(ctx context.Context, token string) (Actor, error) {
	return Actor{}, errPending
}

// --- activity
type Activity struct{ d Deps }

func NewActivity(d Deps) *Activity { return &Activity{d: d.withDefaults()} }

func (s *Activity) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Live is the last hour in memory.
func (s *Activity) Live() *usage.Live { return nil }

// Names maps tenant ids to names for those that exist.
func (s *Activity) Names(ctx context.Context, ids []string) (map[string]string, error) {
	return nil, errPending
}

// --- relay
type Relay struct{ d Deps }

func NewRelay(d Deps) *Relay                   { return &Relay{d: d.withDefaults()} }
func (s *Relay) Nudge()                        {}
func (s *Relay) Run(ctx context.Context) error { <-ctx.Done(); return nil }
