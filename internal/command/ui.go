package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func ui() *cobra.Command {
	c := &cobra.Command{
		Use: "ui", Short: "Print a link to the page that signs you in", Args: NoArguments,
		Long: `Print a link to the page of notifier that signs you in. The link holds your token behind the "#", which a browser sends to nobody:
treat it like the token. Without --server the page is reached by a port-forward, which lasts until the command is interrupted.`,
		Example: `  notifier ui -n team-a`,
	}
	return within(c, nil, func(ctx context.Context, s *session, namespace string, _ []string) error {
		token, err := s.token(ctx)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(s.out, "%s/ns/%s/deliveries#token=%s\n", strings.TrimSuffix(s.address, "/"), namespace, token); err != nil {
			return err
		}
		if s.server == "" {
			fmt.Fprintln(s.notes, "The page is there until you press Ctrl-C.")
			<-ctx.Done()
		}
		return nil
	})
}
