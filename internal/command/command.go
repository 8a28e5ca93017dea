package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// pluginName begins the name of the binary if it is a plugin of kubectl.
const pluginName = "kubectl-"

// UsageError is an error of the command line.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

// Add adds the commands that call the API to root.
func Add(root *cobra.Command) {
	if name := filepath.Base(os.Args[0]); strings.HasPrefix(name, pluginName) {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl " + strings.TrimPrefix(name, pluginName)}
	}
	root.AddCommand(deliveries(), events(), webhooks(), providers(), ui())
}

// group returns a command that has subcommands only.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: NoArguments, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(commands...)
	return c
}

// NoArguments is the check of a command that takes none.
func NoArguments(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case c.HasSubCommands():
		return fmt.Errorf("there is no command %q; see %s --help", args[0], c.CommandPath())
	}
	return fmt.Errorf("unexpected argument %q; see %s --help", args[0], c.CommandPath())
}

// one is the check of a command with one argument, which its usage names.
func one(c *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	_, name, _ := strings.Cut(c.Use, " ")
	return fmt.Errorf("give one %s: %s", name, c.UseLine())
}

// asking returns a command that calls the API. flags declares its own flags; nil is for a command whose output has one form. run receives
// the session and the arguments.
func asking(c *cobra.Command, flags func(*pflag.FlagSet, *session), run func(ctx context.Context, s *session, args []string) error) *cobra.Command {
	s := &session{}
	s.connection.flags(c.Flags())
	if flags != nil {
		flags(c.Flags(), s)
		c.Flags().StringVarP(&s.format, "output", "o", formatTable, "form of the output: one of "+strings.Join(s.formats(), ", "))
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		s.out = c.OutOrStdout()
		s.notes = c.ErrOrStderr()
		if err := s.check(); err != nil {
			return UsageError{err}
		}
		ctx, lost := context.WithCancelCause(c.Context())
		defer lost(nil)
		api, done, err := s.open(ctx, lost)
		if err != nil {
			return shown{err}
		}
		defer done()
		s.api = api
		err = run(ctx, s, args)
		if ctx.Err() != nil && c.Context().Err() == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return shown{s.advised(err)}
		}
		return nil
	}
	return c
}

// within is asking for a command about one namespace.
func within(
	c *cobra.Command, flags func(*pflag.FlagSet, *session), run func(ctx context.Context, s *session, namespace string, args []string) error,
) *cobra.Command {
	return asking(c, flags, func(ctx context.Context, s *session, args []string) error {
		namespace, err := s.ns()
		if err != nil {
			return err
		}
		return run(ctx, s, namespace, args)
	})
}
