package main

import (
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/bench/internal/suite"
)

func TestParse_FilesAreFoundFromElsewhere(t *testing.T) {
	t.Parallel()
	s, err := parse([]string{"-gateway", "x/headgate", "-peer", "h:1"})
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(s.doors.Gateway) || filepath.Base(s.doors.Gateway) != "headgate" || s.doors.PeerBinary != "" || s.doors.Peer != "h:1" {
		t.Errorf("got %+v", s.doors)
	}
}

func TestParse_TellsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-fast"}, {"quick"}, {"-peer-pid", "x"}} {
		if s, err := parse(args); err == nil {
			t.Errorf("%q is %+v", args, s)
		}
	}
}

func TestOptions_FollowTheFlags(t *testing.T) {
	t.Parallel()
	full, quick := suite.Full(), suite.Quick()
	for _, c := range []struct {
		s      settings
		rounds int
		memory bool
	}{
		{settings{}, full.Rounds, true},
		{settings{quick: true}, quick.Rounds, true},
		{settings{only: "hot"}, full.Rounds, false},
		{settings{only: "hot;memory"}, full.Rounds, true},
	} {
		o := c.s.options()
		if o.Rounds != c.rounds || (o.Identifiers > 0) != c.memory || o.Only != c.s.only {
			t.Errorf("%+v gives %d rounds, %d identifiers", c.s, o.Rounds, o.Identifiers)
		}
	}
}
