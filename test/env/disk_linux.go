package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// diskRole in the environment makes a program that calls Main the holder of a disk: "<directory>:<bytes>".
const diskRole = "NOTIFIER_HARNESS_DISK"

// Disk is a small file system of its own, a tmpfs, that can be filled up. It is mounted in a mount namespace that
// belongs to its holder alone, a child process. So it ends with this process, however that ends. Other processes reach
// it through /proc.
type Disk struct {
	// Dir is the root of the file system.
	Dir    string
	holder *Process
}

// NewDisk makes a disk of the size. It needs permission to mount, or to make a user namespace to mount in; without
// either it returns an error.
func NewDisk(ctx context.Context, bytes int64) (*Disk, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := TempDir("disk")
	if err != nil {
		return nil, err
	}
	uid, gid := os.Getuid(), os.Getgid()
	var errs []error
	for _, attributes := range []func(*syscall.SysProcAttr){
		func(a *syscall.SysProcAttr) { a.Cloneflags = syscall.CLONE_NEWNS },
		func(a *syscall.SysProcAttr) {
			a.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER
			a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
			a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
		},
	} {
		holder, err := Start(Command{
			Path: self, Env: []string{diskRole + "=" + dir + ":" + strconv.FormatInt(bytes, 10)}, attributes: attributes,
		})
		if err == nil {
			_, err = holder.WaitLog(ctx, func(line string) bool { return line == "mounted" })
		}
		if err == nil {
			return &Disk{Dir: filepath.Join("/proc", strconv.Itoa(holder.PID()), "root", dir), holder: holder}, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("a disk needs CAP_SYS_ADMIN or unprivileged user namespaces: %w", errors.Join(errs...))
}

// holdDisk is the holder: it mounts the disk and waits to be killed.
func holdDisk(role string) int {
	dir, size, _ := strings.Cut(role, ":")
	err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SLAVE, "")
	if err == nil {
		err = syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=0700,size="+size)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mount:", err)
		return 1
	}
	fmt.Println("mounted")
	select {}
}

// filler is the file that takes all space.
func (d *Disk) filler() string { return filepath.Join(d.Dir, "filler") }

// Fill takes all free space except leave bytes.
func (d *Disk) Fill(leave int64) error {
	f, err := os.Create(d.filler())
	if err != nil {
		return err
	}
	chunk := make([]byte, 1<<20)
	for len(chunk) > 0 {
		if _, err = f.Write(chunk); err != nil {
			chunk = chunk[:len(chunk)/2] // down to the last byte
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		return errors.Join(fmt.Errorf("fill %s: %w", d.Dir, err), f.Close())
	}
	size, err := f.Seek(0, io.SeekCurrent)
	if err == nil {
		err = f.Truncate(max(0, size-leave))
	}
	return errors.Join(err, f.Close())
}

// Free returns the space that Fill took.
func (d *Disk) Free() error { return os.Remove(d.filler()) }

// Close ends the disk with everything on it.
func (d *Disk) Close() error { return d.holder.Kill9() }

// LimitFiles prevents the process from writing a file beyond the size, as a quota does. The limit can only be lowered.
func (p *Process) LimitFiles(bytes uint64) error {
	limit := syscall.Rlimit{Cur: bytes, Max: bytes}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(p.PID()), syscall.RLIMIT_FSIZE, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("limit the files of %s: %w", p.Name(), errno)
	}
	return nil
}
