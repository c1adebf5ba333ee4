package policy

import (
	"fmt"
	"time"
)

// LoadZone finds a time zone by its IANA name ("Europe/Berlin", "UTC"). Names
// that mean something else on each machine are refused. It reads the zones that
// the program embeds, or else those of the machine.
func LoadZone(name string) (*time.Location, error) {
	if name == DefaultTimeZone {
		return time.UTC, nil
	}
	if name == "" || name == "Local" || len(name) > 64 {
		return nil, fmt.Errorf("%q is not a time zone: write a name such as Europe/Berlin or UTC", clip(name))
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q is not a time zone that is known here: write a name such as Europe/Berlin or UTC", clip(name))
	}
	return zone, nil
}
