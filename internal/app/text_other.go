//go:build !linux

package app

// forgetText does nothing here.
func forgetText() {}
