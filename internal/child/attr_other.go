//go:build !linux

package child

import "syscall"

// There is no death signal here: the parent's own signal handling and the
// cleaning at the next start have to do.
func sysProcAttr(s Spec) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: s.Credential, Setpgid: true}
}
