// Command notifier sends the events of Flux objects to destinations, and webhooks to the objects of the tenants that they are for.
// Its other commands show the owners of a namespace the results of both.
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

	"github.com/spf13/cobra"

	"notifier/internal/app"
	"notifier/internal/command"
)

// Exit codes distinguish a wrong command line from a failure of the process.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once

	root, began := newRoot(), false
	root.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "notifier: %v\n", err)
	if _, wrong := errors.AsType[command.UsageError](err); wrong || !began { // cobra has refused the others before it began
		return exitUsage
	}
	return exitError
}

// newRoot returns the root command with all subcommands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use: "notifier", Short: "Multi-tenant notifications and webhooks for Flux", SilenceUsage: true, SilenceErrors: true,
		Args: func(c *cobra.Command, args []string) error {
			if err := command.NoArguments(c, args); err != nil {
				return err
			}
			return errors.New("say what to do: serve, deliveries, events, webhooks, providers, ui or version; see notifier --help")
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if c == root { // as with the arguments of Flux's Deployment
			return fmt.Errorf("%w; the process's flags come after the command serve", err)
		}
		return fmt.Errorf("%w; see %s --help", err, c.CommandPath())
	})
	root.AddCommand(newServe(), &cobra.Command{
		Use: "version", Short: "Print the version", Args: command.NoArguments,
		Run: func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), currentVersion()) },
	})
	command.Add(root)
	return root
}

func newServe() *cobra.Command {
	flags, options := newFlags()
	c := &cobra.Command{
		Use: "serve", Short: "Run the process of an installation",
		Args: command.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			o := options()
			o.LogOutput = c.ErrOrStderr()
			o.Version = currentVersion()
			if err := o.Validate(); err != nil {
				return command.UsageError{Err: err}
			}
			a, err := app.New(c.Context(), o)
			if err != nil && c.Context().Err() != nil {
				return nil // asked to end while it waited for the data directory or the server
			}
			if err != nil {
				return err
			}
			return a.Run(c.Context())
		},
	}
	c.Flags().SortFlags = false
	c.Flags().AddFlagSet(flags)
	return c
}

// version is set by the linker in released builds.
var version string

// currentVersion returns version, else the module's version, which is "(devel)" for a build from a work tree.
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
