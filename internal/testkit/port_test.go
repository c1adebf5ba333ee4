package testkit

import (
	"net"
	"testing"

	"github.com/headgate/headgate/internal/child"
)

// TestRedis_ThePortOfAKilledServerIsNobodyElses: Sentinels that still watch it
// would make a stranger's server on it one of theirs.
func TestRedis_ThePortOfAKilledServerIsNobodyElses(t *testing.T) {
	t.Parallel()
	r := Redis(t)
	for range 2 {
		r.Kill()
		if child.PortFree(r.opts.Port) {
			t.Fatal("the port of a killed server can be taken")
		}
		if l, err := net.Listen("tcp", r.Addr); err == nil {
			_ = l.Close()
			t.Fatal("somebody else listens on the port of a killed server")
		}
		if c, err := net.Dial("tcp", r.Addr); err == nil {
			_ = c.Close()
			t.Fatal("the port of a killed server takes connections")
		}
		r.Start()
	}
}

func TestPort_IsFreeOnceItIsLetGo(t *testing.T) {
	t.Parallel()
	p, err := takePort()
	if err != nil {
		t.Fatal(err)
	}
	if child.PortFree(p.number) {
		t.Error("a port that is held can be taken")
	}
	if err := p.lend(true); err != nil || !child.PortFree(p.number) {
		t.Errorf("a port that is lent cannot be used: %v", err)
	}
	if err := p.lend(false); err != nil || child.PortFree(p.number) {
		t.Errorf("a port that is held again can be taken: %v", err)
	}
	p.letGo()
	if !child.PortFree(p.number) {
		t.Error("a port that was let go cannot be used")
	}
}
