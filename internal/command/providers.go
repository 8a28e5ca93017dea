package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"notifier/internal/api/client"
	"notifier/internal/event/view"
)

func providers() *cobra.Command {
	return group("providers", "Destinations of notifications", providersTest())
}

// lookEvery is the pause between two queries for a test's delivery.
const lookEvery = 300 * time.Millisecond

func providersTest() *cobra.Command {
	c := &cobra.Command{
		Use: "test PROVIDER", Short: "Send one test message through a Provider, and show its outcome", Args: one,
		Example: `  notifier providers test slack`,
	}
	var wait time.Duration
	return within(c, func(fs *pflag.FlagSet, _ *session) {
		fs.DurationVar(&wait, "wait", 30*time.Second, "how long to wait for the outcome; 0 does not wait")
	}, func(ctx context.Context, s *session, namespace string, args []string) error {
		result, err := retried(ctx, s, tooMany, func() (view.TestResult, error) {
			return s.api.Test(ctx, namespace, view.TestRequest{Provider: args[0]})
		})
		if err != nil {
			return inNamespace(namespace, err)
		}
		d, err := outcome(ctx, s.api, namespace, result.DeliveryID, wait)
		if err != nil {
			return inNamespace(namespace, fmt.Errorf("a test message is on its way as delivery %s, of which no more is known: %w", result.DeliveryID, err))
		}
		return showTest(s, namespace, args[0], result, d)
	})
}

// outcome waits until a delivery is sent, is a dead letter or has failed once. It returns nil if it is none of that by then, or the API cannot
// be reached, and the API's refusal.
func outcome(ctx context.Context, api *client.Client, namespace, id string, wait time.Duration) (*view.DeliveryDetail, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(lookEvery):
		}
		d, err := api.Delivery(ctx, namespace, id)
		if err != nil {
			if refused, ok := errors.AsType[*client.Error](err); ok && !refused.Temporary() && refused.Status != http.StatusNotFound { // it is found once it was tried
				return nil, err
			}
			continue
		}
		if d.State != view.StatePending || d.Failure != "" {
			return &d, nil
		}
	}
}

// showTest writes the outcome of a test. In each form of the output the error says that the destination did not take the message.
func showTest(s *session, namespace, provider string, result view.TestResult, d *view.DeliveryDetail) (err error) {
	switch {
	case s.machine() && d != nil:
		err = s.write(d)
	case s.machine():
		err = s.write(result)
	case d == nil:
		_, err = fmt.Fprintf(s.out, "A test message is on its way to %s; see: notifier deliveries show -n %s %s\n",
			plain(provider), plain(namespace), plain(result.DeliveryID))
	case d.State == view.StateSent:
		_, err = fmt.Fprintf(s.out, "%s accepted the test message (delivery %s).\n", plain(provider), plain(d.ID))
	}
	if err != nil || d == nil || d.State == view.StateSent {
		return err
	}
	state := plain(string(d.State))
	if !d.Next.IsZero() {
		state += ", and is tried again at " + d.Next.Format(time.RFC3339)
	}
	return fmt.Errorf("%s did not take the test message: %s (delivery %s is %s); what to do: kubectl -n %s get provider %s",
		plain(provider), plain(d.Failure), plain(d.ID), state, plain(namespace), plain(provider))
}
