package env

import "syscall"

// childAttributes gives the child its own process group and has the kernel send it deathSignal when this process ends,
// in any way.
func childAttributes(deathSignal syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: deathSignal}
}
