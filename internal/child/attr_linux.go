package child

import "syscall"

func sysProcAttr(s Spec) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: s.Credential, Setpgid: true, Pdeathsig: s.DeathSignal}
}
