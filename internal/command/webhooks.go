package command

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"notifier/internal/event/view"
)

func webhooks() *cobra.Command {
	return group("webhooks", "Webhooks to Receivers", webhooksList())
}

var webhookColumns = []column[view.Webhook]{
	{name: namespaceColumn, of: func(w view.Webhook) string { return w.Namespace }},
	{name: "AGE", of: func(w view.Webhook) string { return age(w.Time, time.Now()) }},
	{name: "RECEIVER", of: func(w view.Webhook) string { return w.Receiver }},
	{name: "RESULT", of: func(w view.Webhook) string { return w.Result }},
	{name: "COUNT", of: func(w view.Webhook) string { return strconv.FormatInt(w.Count, 10) }},
	{name: idColumn, of: func(w view.Webhook) string { return w.ID }},
	{name: "TARGETS", of: func(w view.Webhook) string { return short(strings.Join(w.Targets, ", ")) }},
	{name: "REASON", of: func(w view.Webhook) string { return short(w.Reason) }},
}

func webhooksList() *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List webhooks of the last day, newest first", Args: NoArguments,
		Example: `  notifier webhooks list --receiver=github`,
	}
	return asking(c, func(fs *pflag.FlagSet, s *session) {
		s.selection.flags(fs)
		fs.StringVar(&s.query.Receiver, "receiver", "", "only those for this Receiver")
	}, func(ctx context.Context, s *session, _ []string) error {
		return list(ctx, s, view.Webhooks, webhookColumns)
	})
}
