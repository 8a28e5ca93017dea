package command

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"notifier/internal/event/view"
)

func deliveries() *cobra.Command {
	return group("deliveries", "Notifications that were sent, wait or were given up", deliveriesList(), deliveriesShow(), deliveriesReplay())
}

var deliveryColumns = []column[view.Delivery]{
	{name: namespaceColumn, of: func(d view.Delivery) string { return d.Namespace }},
	{name: "AGE", of: func(d view.Delivery) string { return age(d.Time, time.Now()) }},
	{name: "STATE", of: func(d view.Delivery) string { return string(d.State) }},
	{name: "OBJECT", of: func(d view.Delivery) string { return d.Object.String() }},
	{name: "REASON", of: func(d view.Delivery) string { return d.Reason }},
	{name: "SEVERITY", wide: true, of: func(d view.Delivery) string { return d.Severity }},
	{name: "ALERT", of: func(d view.Delivery) string { return d.Alert }},
	{name: "PROVIDER", of: func(d view.Delivery) string { return d.Provider }},
	{name: "ATTEMPTS", of: func(d view.Delivery) string { return strconv.Itoa(d.Attempts) }},
	{name: "REPLAYS", wide: true, of: func(d view.Delivery) string { return strconv.Itoa(d.Replays) }},
	{name: "NEXT", wide: true, of: func(d view.Delivery) string { return next(d.Next, time.Now()) }},
	{name: idColumn, of: func(d view.Delivery) string { return d.ID }},
	{name: "FAILURE", of: func(d view.Delivery) string { return short(d.Failure) }},
}

func deliveriesList() *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List deliveries, newest first", Args: NoArguments,
		Example: `  # What was given up in the last hour, and why
  notifier deliveries list --state=dead --since=1h

  # What goes to one Provider, as it happens
  notifier deliveries list --provider=slack --watch

  # Send again what was given up for one object
  notifier deliveries replay $(notifier deliveries list --state=dead --object=Kustomization/apps -o name)`,
	}
	return asking(c, func(fs *pflag.FlagSet, s *session) {
		s.selection.flags(fs)
		fs.StringVar((*string)(&s.query.State), "state", "", "only those in this state: pending, sent or dead")
		s.deliveryFlags(fs)
		fs.StringVar(&s.query.Object, "object", "", `only those about this object, such as "Kustomization/apps"`)
		fs.StringVar(&s.query.Event, "event", "", "only those of the event with this ID")
	}, func(ctx context.Context, s *session, _ []string) error {
		return list(ctx, s, view.Deliveries, deliveryColumns)
	})
}

// deliveryFlags declares the flags that select deliveries.
func (s *selection) deliveryFlags(fs *pflag.FlagSet) {
	fs.StringVar(&s.query.Provider, "provider", "", "only those to this Provider")
	fs.StringVar(&s.query.Alert, "alert", "", "only those of this Alert")
}

func deliveriesShow() *cobra.Command {
	c := &cobra.Command{
		Use: "show ID", Short: "Show one delivery: each attempt, and the message", Args: one,
		Example: `  notifier deliveries show 3f1c9a0d5b7e4f62a1d0c9b8e7f6a5b4`,
	}
	return within(c, func(*pflag.FlagSet, *session) {}, func(ctx context.Context, s *session, namespace string, args []string) error {
		d, err := retried(ctx, s, maybeLater, func() (view.DeliveryDetail, error) { return s.api.Delivery(ctx, namespace, args[0]) })
		if err != nil {
			return inNamespace(namespace, err)
		}
		if s.machine() {
			return s.write(d)
		}
		return showDelivery(s.out, &d, time.Now())
	})
}

// showDelivery writes a delivery for a reader.
func showDelivery(w io.Writer, d *view.DeliveryDetail, now time.Time) error {
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name+":", plain(value))
		}
	}
	field("Delivery", d.ID)
	field("State", fmt.Sprintf("%s, %s ago (%s)", d.State, age(d.Time, now), d.Time.Format(time.RFC3339)))
	field("Object", d.Object.String())
	field("Alert", d.Alert)
	field("Provider", d.Provider)
	field("Failure", d.Failure)
	if !d.Next.IsZero() {
		field("Next try", d.Next.Format(time.RFC3339))
	}
	if d.Replays > 0 {
		field("Replays", strconv.Itoa(d.Replays))
	}
	if d.Message != nil {
		field("Event", d.Message.ID)
	}
	if d.State == view.StateDead {
		field("Remedy", "correct the cause, then: "+again(d.Delivery))
	}
	showMessage(&b, d)
	if _, err := io.WriteString(w, b.String()+"\n"); err != nil {
		return err
	}
	return table(w, []column[view.Attempt]{
		{name: "ATTEMPT", of: func(a view.Attempt) string { return a.Time.Format(time.RFC3339) }},
		{name: "TOOK", of: func(a view.Attempt) string { return (time.Duration(a.Millis) * time.Millisecond).String() }},
		{name: "RESULT", of: func(a view.Attempt) string { return a.Class }},
		{name: "HTTP", of: func(a view.Attempt) string { return status(a.Status) }},
		{name: "FAILURE", of: func(a view.Attempt) string { return a.Failure }},
	}, d.Tries, true)
}

// again returns the command that sends a dead letter again: a replay, or for a test message another test.
func again(d view.Delivery) string {
	if d.Alert == "" {
		return "notifier providers test -n " + d.Namespace + " " + d.Provider
	}
	return "notifier deliveries replay -n " + d.Namespace + " " + d.ID
}

// next returns the time until t, "" for none.
func next(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return "in " + age(now, t)
}

func status(code int) string {
	if code == 0 {
		return ""
	}
	return strconv.Itoa(code)
}

// showMessage writes the message to the destination.
func showMessage(b *strings.Builder, d *view.DeliveryDetail) {
	m := d.Message
	if m == nil {
		fmt.Fprintf(b, "Message:   not kept any more\n")
		return
	}
	fmt.Fprintf(b, "Message:   %s, %s\n", plain(m.Severity), plain(m.Reason))
	for line := range strings.Lines(m.Message) {
		fmt.Fprintf(b, "  %s\n", plain(line))
	}
	for _, key := range slices.Sorted(maps.Keys(m.Metadata)) {
		fmt.Fprintf(b, "  %s = %s\n", plain(key), plain(m.Metadata[key]))
	}
}
