//go:build !linux

package env

import "syscall"

// childAttributes gives the child its own process group. Only Linux can also end it
// when this process is killed.
func childAttributes(syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
