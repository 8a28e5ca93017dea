package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticks is the number of units of processor time in /proc a second; it is the same on every Linux that Go supports.
const ticks = 100

// processorTime returns the processor time of the process, user and system.
func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(text, []byte(") ")) // the name, in parentheses, may contain spaces
	return ticksOf(strings.Fields(string(rest)), 11, 12)
}

// machineTime returns the busy time of the processors, for all processes.
func machineTime() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return ticksOf(strings.Fields(line), 1, 2, 3, 6, 7, 8) // user, nice, system, irq, softirq, steal
}

func ticksOf(fields []string, places ...int) (time.Duration, error) {
	var sum int64
	for _, i := range places {
		if i >= len(fields) {
			return 0, fmt.Errorf("%d fields in /proc, want more than %d", len(fields), i)
		}
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return time.Duration(sum) * time.Second / ticks, nil
}

// meter measures the processor time of a process, and of others, from its beginning on.
type meter struct {
	pid             int
	begin           time.Time
	process, others time.Duration
}

func newMeter(pid int) (m meter, err error) {
	m = meter{pid: pid, begin: time.Now()}
	m.process, m.others, err = m.now()
	return m, err
}

// now returns the processor time of the process, and that of all processes except it and this program.
func (m meter) now() (process, others time.Duration, err error) {
	if process, err = processorTime(m.pid); err != nil {
		return 0, 0, err
	}
	own, err := processorTime(os.Getpid())
	if err != nil {
		return 0, 0, err
	}
	machine, err := machineTime()
	return process, machine - process - own, err
}

// read returns the process's time since the beginning, and the number of processors that others used meanwhile.
func (m meter) read() (process time.Duration, others float64, err error) {
	p, o, err := m.now()
	return p - m.process, (o - m.others).Seconds() / time.Since(m.begin).Seconds(), err
}

const (
	// A machine is quiet when others use less than quietProcessors. quiet waits at most quietWait and measures every
	// quietLook.
	quietProcessors = 0.4
	quietWait       = 2 * time.Second
	quietLook       = 300 * time.Millisecond
)

// quiet waits until others use little of the machine, but only for a while: the most disturbed windows do not count
// anyway.
func quiet(ctx context.Context, pid int) error {
	tick := time.NewTicker(quietLook)
	defer tick.Stop()
	for end := time.Now().Add(quietWait); time.Now().Before(end); {
		m, err := newMeter(pid)
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if _, others, err := m.read(); err != nil || others < quietProcessors {
			return err
		}
	}
	return nil
}
