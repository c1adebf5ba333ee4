package console

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/headgate/headgate/policy"
)

// MaxBrownouts is how many brown-outs one rotation can have.
const MaxBrownouts = 10

// Brownout is one refusal of a rotation's old version for a short while.
type Brownout struct {
	ID         string // brn_…
	RotationID string
	KID        string
	TenantID   string
	Network    string // CIDR of the sources concerned; "" for all
	From       time.Time
	Until      time.Time
	StoppedAt  *time.Time // before its time
	Author     string
	AuthorID   string
	Reason     string
}

// Running reports whether the old version is refused by it now.
func (b Brownout) Running(now time.Time) bool { return b.StoppedAt == nil && now.Before(b.Until) }

// NewBrownout is what somebody says of a new brown-out. Network is a network as
// sources name it, or an address in it; "" is all. For is at most
// policy.MaxBrownout, which 0 stands for. A reason is compulsory.
type NewBrownout struct {
	Network string
	For     time.Duration
	Reason  string
}

// StartBrownout refuses the old version of a running rotation for a short while,
// to find out who still depends on it. It ends by itself, by the gateways' clock.
// One runs at a time, and a rotation has at most MaxBrownouts.
func (s *Rotations) StartBrownout(ctx context.Context, actor Actor, id string, in NewBrownout) (Brownout, Change, error) {
	var p problems
	in.Reason = p.reason(in.Reason)
	network := p.network("network", in.Network)
	if in.For == 0 {
		in.For = policy.MaxBrownout
	}
	if in.For < time.Second || in.For > policy.MaxBrownout {
		p.add("for", "Between 1 and %d seconds.", int(policy.MaxBrownout/time.Second))
	}
	if err := p.err(); err != nil {
		return Brownout{}, Change{}, err
	}
	brn, err := s.d.newID("brn")
	if err != nil {
		return Brownout{}, Change{}, err
	}
	var b Brownout
	change, err := s.change(ctx, actor, PermManageKeys, id, func(k *keyring) error {
		b = Brownout{
			ID: brn, RotationID: id, KID: k.open.OldKID, TenantID: k.open.TenantID, Network: network, From: k.now, Until: k.now.Add(in.For),
			Author: actor.Name, AuthorID: actor.ID, Reason: in.Reason,
		}
		return k.brownout(ctx, b)
	})
	if err != nil {
		return Brownout{}, Change{}, err
	}
	return b, change, nil
}

func (k *keyring) brownout(ctx context.Context, b Brownout) error {
	old := k.find(b.KID)
	earlier, err := k.tx.Brownouts(ctx, b.RotationID)
	switch {
	case err != nil:
		return err
	case old.State != policy.KeyRetiring:
		return conflict("The old key is " + string(old.State) + "; there is nothing to refuse.")
	case len(earlier) > 0 && earlier[0].Running(k.now):
		return conflict("A brown-out of this rotation is running already.")
	case len(earlier) >= MaxBrownouts:
		return conflict(fmt.Sprintf("This rotation has had %d brown-outs, which is the most.", MaxBrownouts))
	}
	old.Brownout = &policy.Brownout{Network: b.Network, From: b.From, Until: b.Until}
	if err := k.write(ctx, old); err != nil {
		return err
	}
	if err := k.tx.InsertBrownout(ctx, b); err != nil {
		return fmt.Errorf("insert brown-out: %w", err)
	}
	return k.d.record(ctx, k.tx, k.actor, k.now, event{
		action: "rotation.brownout", object: "rotation", objectID: b.RotationID, tenantID: b.TenantID,
		after: brownoutView{b.KID, b.Network, b.Until}, reason: b.Reason,
	})
}

// StopBrownout ends the brown-out of a rotation before its time.
func (s *Rotations) StopBrownout(ctx context.Context, actor Actor, id string) (Change, error) {
	return s.change(ctx, actor, PermManageKeys, id, func(k *keyring) error {
		list, err := k.tx.Brownouts(ctx, id)
		if err != nil {
			return err
		}
		if len(list) == 0 || !list[0].Running(k.now) {
			return conflict("No brown-out of this rotation is running.")
		}
		old := k.find(k.open.OldKID)
		old.Brownout = nil
		if err := k.write(ctx, old); err != nil {
			return err
		}
		if err := k.tx.StopBrownouts(ctx, id, k.now); err != nil {
			return fmt.Errorf("stop brown-out: %w", err)
		}
		b := list[0]
		return k.d.record(ctx, k.tx, actor, k.now, event{
			action: "rotation.brownout-stop", object: "rotation", objectID: id, tenantID: b.TenantID,
			before: brownoutView{b.KID, b.Network, b.Until}, after: brownoutView{b.KID, b.Network, k.now},
		})
	})
}

// Brownouts lists the brown-outs of a rotation, the newest first.
func (s *Rotations) Brownouts(ctx context.Context, id string) (out []Brownout, err error) {
	err = s.d.Store.Read(ctx, func(tx Tx) error {
		out, err = tx.Brownouts(ctx, id)
		return err
	})
	return out, err
}

// network reads a network as sources name it: /24 or /48, or an address in one.
func (p *problems) network(field, s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return ""
	}
	if !strings.Contains(s, "/") {
		addr, err := netip.ParseAddr(s)
		if err == nil && addr.Zone() == "" {
			return sourceNetwork(addr.Unmap())
		}
	}
	prefix, err := netip.ParsePrefix(s)
	if err != nil || prefix.String() != sourceNetwork(prefix.Addr()) {
		p.add(field, "A network as the list of sources has it, such as 198.51.100.0/24 or 2001:db8:1::/48, or an address in it.")
		return ""
	}
	return prefix.String()
}

func sourceNetwork(addr netip.Addr) string {
	bits := 48
	if addr.Is4() {
		bits = 24
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return ""
	}
	return prefix.String()
}
