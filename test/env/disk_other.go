//go:build !linux

package env

import (
	"context"
	"errors"
)

const diskRole = "NOTIFIER_HARNESS_DISK"

// Disk is a small file system that can be filled up.
type Disk struct{ Dir string }

var errNoDisk = errors.New("a disk of its own is only made on Linux")

// NewDisk fails: a disk needs Linux.
func NewDisk(context.Context, int64) (*Disk, error) { return nil, errNoDisk }

// Fill fails.
func (d *Disk) Fill(int64) error { return errNoDisk }

// Free fails.
func (d *Disk) Free() error { return errNoDisk }

// Close fails.
func (d *Disk) Close() error { return errNoDisk }

func holdDisk(string) int { return 1 }

// LimitFiles fails.
func (p *Process) LimitFiles(uint64) error { return errNoDisk }
