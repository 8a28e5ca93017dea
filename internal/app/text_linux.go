package app

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// forgetText has the kernel take the pages of the program's file out of the process: most of them were needed for the start alone, and
// what is needed comes back from the page cache, without a read of the disk. It does nothing where that is not possible.
func forgetText() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer func() { _ = smaps.Close() }()
	for _, m := range unchanged(smaps, program) {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.begin, m.end-m.begin, syscall.MADV_DONTNEED)
	}
}

// mapping is where a part of a file is in memory.
type mapping struct{ begin, end uintptr }

// unchanged returns the mappings of a file that cannot be written to and of which no page differs from the file, as it would where a
// linker or a debugger wrote: such a page would be lost. It reads what proc_pid_smaps(5) says.
func unchanged(smaps io.Reader, file string) []mapping {
	var found []mapping
	candidate := false
	var is mapping
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		if begin, end, perms, name, ok := parseMapping(lines.Text()); ok {
			is = mapping{begin, end}
			candidate = name == file && (perms == "r-xp" || perms == "r--p")
			continue
		}
		field, value, _ := strings.Cut(lines.Text(), ":")
		if field == "Anonymous" && candidate && strings.TrimSpace(value) == "0 kB" {
			found = append(found, is)
		}
	}
	if lines.Err() != nil {
		return nil
	}
	return found
}

// parseMapping reads a line that begins a mapping: "begin-end perms offset device inode path".
func parseMapping(line string) (begin, end uintptr, perms, path string, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 5 {
		return 0, 0, "", "", false
	}
	from, to, cut := strings.Cut(fields[0], "-")
	b, beginErr := strconv.ParseUint(from, 16, 64)
	e, endErr := strconv.ParseUint(to, 16, 64)
	if !cut || beginErr != nil || endErr != nil {
		return 0, 0, "", "", false
	}
	return uintptr(b), uintptr(e), fields[1], strings.Join(fields[5:], " "), true
}
