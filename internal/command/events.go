package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"notifier/internal/event/view"
)

func events() *cobra.Command {
	return group("events", "Events of objects, and the Alerts that took them", eventsList(), eventsExplain())
}

var eventColumns = []column[view.Event]{
	{name: namespaceColumn, of: func(e view.Event) string { return e.Namespace }},
	{name: "AGE", of: func(e view.Event) string { return age(e.Accepted, time.Now()) }},
	{name: "SEVERITY", of: func(e view.Event) string { return e.Severity }},
	{name: "OBJECT", of: func(e view.Event) string { return e.Object.String() }},
	{name: "REASON", of: func(e view.Event) string { return e.Reason }},
	{name: "SOURCE", wide: true, of: func(e view.Event) string { return e.Source }},
	{name: idColumn, of: func(e view.Event) string { return e.ID }},
	{name: "MESSAGE", of: func(e view.Event) string { return short(e.Message) }},
}

func eventsList() *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List events, newest first", Args: NoArguments,
		Example: `  notifier events list --object=Kustomization/apps --since=2h`,
	}
	return asking(c, func(fs *pflag.FlagSet, s *session) {
		s.selection.flags(fs)
		fs.StringVar(&s.query.Object, "object", "", `only those about this object, such as "Kustomization/apps"`)
	}, func(ctx context.Context, s *session, _ []string) error {
		return list(ctx, s, view.Events, eventColumns)
	})
}

func eventsExplain() *cobra.Command {
	c := &cobra.Command{
		Use: "explain ID", Short: "Show for each Alert whether it takes an event, and which field decides", Args: one,
		Example: `  notifier events explain 9b2e4d6f8a0c1e3f5a7b9c1d3e5f7a9b`,
	}
	return within(c, func(*pflag.FlagSet, *session) {}, func(ctx context.Context, s *session, namespace string, args []string) error {
		x, err := retried(ctx, s, maybeLater, func() (view.Explanation, error) { return s.api.Explain(ctx, namespace, args[0]) })
		if err != nil {
			return inNamespace(namespace, err)
		}
		if s.machine() {
			return s.write(x)
		}
		return showExplanation(s, &x)
	})
}

var decisionColumns = []column[view.Decision]{
	{name: "ALERT", of: func(d view.Decision) string { return d.Alert }},
	{name: "PROVIDER", of: func(d view.Decision) string { return d.Provider }},
	{name: "TAKEN", of: func(d view.Decision) string { return yesNo(d.Matched) }},
	{name: "FIELD", of: func(d view.Decision) string { return d.Field }},
	{name: "DELIVERY", of: func(d view.Decision) string { return deliveryOf(d) }},
	{name: "WHY", of: func(d view.Decision) string { return d.Why }},
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// deliveryOf returns the state and the ID of a decision's delivery, empty if nothing is kept of it.
func deliveryOf(d view.Decision) string {
	if d.Delivery == nil {
		return ""
	}
	return string(d.Delivery.State) + " " + d.Delivery.ID
}

func showExplanation(s *session, x *view.Explanation) error {
	e := x.Event
	if _, err := fmt.Fprintf(s.out, "%s %s: %s, accepted %s\n\n",
		plain(e.Object.String()), plain(e.Reason), short(e.Message), e.Accepted.Format(time.RFC3339)); err != nil {
		return err
	}
	if len(x.Decisions) == 0 {
		_, err := fmt.Fprintln(s.out, "The namespace has no Alert.")
		return err
	}
	return table(s.out, decisionColumns, x.Decisions, true)
}
