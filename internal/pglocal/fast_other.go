//go:build !linux

package pglocal

import "github.com/headgate/headgate/internal/child"

// FastTemp is a folder for clusters that may be thrown away.
func FastTemp() string { return child.TempParent() }
