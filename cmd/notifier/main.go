// Command notifier carries what Flux reconciles to the people who care, and webhooks to the objects of the tenant that they
// belong to.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/pflag"

	"notifier/internal/app"
)

// Exit codes: a wrong command line is told apart from a process that could not go on.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	switch command {
	case "serve":
		return serve(args[1:], stdout, stderr)
	case "version":
		fmt.Fprintln(stdout, currentVersion())
		return exitOK
	case "help", "-h", "--help":
		usage(stdout)
		return exitOK
	default:
		usage(stderr)
		return exitUsage
	}
}

func usage(w io.Writer) {
	fmt.Fprint(w, `notifier: multi-tenant notifications and webhooks for Flux

Usage:
  notifier serve [flags]   run the process; "notifier serve --help" lists the flags
  notifier version         print the version
`)
}

func serve(args []string, stdout, stderr io.Writer) int {
	flags, options := newFlags()
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Fprintf(stdout, "Usage: notifier serve [flags]\n\n%s", flags.FlagUsages())
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "notifier: %v\n", err)
		return exitUsage
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "notifier: unexpected argument %q: serve takes flags only\n", flags.Arg(0))
		return exitUsage
	}
	o := options()
	o.LogOutput = stderr
	o.Version = currentVersion()
	if err := o.Validate(); err != nil {
		fmt.Fprintf(stderr, "notifier: %v\n", err)
		return exitUsage
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	a, err := app.New(ctx, o)
	if err != nil {
		fmt.Fprintf(stderr, "notifier: %v\n", err)
		return exitError
	}
	if err := a.Run(ctx); err != nil {
		fmt.Fprintf(stderr, "notifier: %v\n", err)
		return exitError
	}
	return exitOK
}

// version is set by the linker in released builds.
var version string

// currentVersion falls back to the module version, "(devel)" for a build from a work tree.
func currentVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}
