package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"notifier/internal/event/view"
)

// errSelectNothing refuses a replay without a selection, which would replay everything.
var errSelectNothing = UsageError{errors.New("say what to replay: IDs, or --state, --provider, --alert, --since or --until")}

func deliveriesReplay() *cobra.Command {
	c := &cobra.Command{
		Use: "replay [ID...]", Short: "Send deliveries again that were given up or sent", Args: cobra.ArbitraryArgs,
		Example: `  # One delivery
  notifier deliveries replay 3f1c9a0d5b7e4f62a1d0c9b8e7f6a5b4

  # All that a Provider lost while it was down
  notifier deliveries replay --state=dead --provider=slack`,
	}
	return within(c, func(fs *pflag.FlagSet, s *session) {
		fs.StringVar((*string)(&s.query.State), "state", "", "only those in this state: dead or sent")
		s.deliveryFlags(fs)
		s.timeFlags(fs)
	}, replay)
}

func replay(ctx context.Context, s *session, namespace string, ids []string) (err error) {
	q := s.query
	r := view.ReplayRequest{IDs: ids, Provider: q.Provider, Alert: q.Alert, State: q.State, Since: q.Since, Until: q.Until}
	switch selects := q.State != "" || q.Provider != "" || q.Alert != "" || !q.Since.IsZero() || !q.Until.IsZero(); {
	case len(ids) == 0 && !selects:
		return errSelectNothing
	case len(ids) > 0 && selects:
		return UsageError{errors.New("give either IDs or flags that select deliveries")}
	}
	total, failure := replayAll(ctx, s, namespace, r)
	if failure != nil && total.Replayed == 0 {
		return inNamespace(namespace, failure)
	}
	if s.machine() {
		err = s.write(total)
	} else {
		err = showReplay(s, &total)
	}
	switch {
	case failure != nil:
		return fmt.Errorf("the others were not replayed: %w", inNamespace(namespace, failure))
	case err == nil && total.NotReplayed > 0:
		return fmt.Errorf("%d of %d were not replayed", total.NotReplayed, total.Replayed+total.NotReplayed)
	}
	return err
}

// replayAll sends requests until no selected dead letter is left or a request replays none: one request replays at most
// view.MaxReplay. Deliveries that become dead letters meanwhile are left alone. Unless the state is dead it sends one request, since
// another would select replayed deliveries again. With an error it also returns the result of the requests before.
func replayAll(ctx context.Context, s *session, namespace string, r view.ReplayRequest) (total view.ReplayResult, _ error) {
	repeats := r.State == view.StateDead
	temporary := tooMany
	if repeats {
		temporary = maybeLater // a part of the request may have been done: a replayed delivery is no longer dead
	}
	for {
		result, err := retried(ctx, s, temporary, func() (view.ReplayResult, error) { return s.api.Replay(ctx, namespace, r) })
		if err != nil {
			total.More = true
			return total, err
		}
		total.Replayed += result.Replayed
		total.Refused, total.NotReplayed, total.More = result.Refused, result.NotReplayed, result.More // they are dead still, and are refused again
		if !result.Until.IsZero() {
			r.Until = result.Until
		}
		if !result.More || result.Replayed == 0 || !repeats {
			return total, nil
		}
		fmt.Fprintln(s.notes, onTheirWay(total.Replayed)+" so far.")
	}
}

// onTheirWay says how many deliveries were replayed.
func onTheirWay(n int) string {
	if n == 1 {
		return "1 delivery is on its way again"
	}
	return fmt.Sprintf("%d deliveries are on their way again", n)
}

func showReplay(s *session, r *view.ReplayResult) error {
	if r.Replayed == 0 && r.NotReplayed == 0 && !r.More {
		_, err := fmt.Fprintln(s.out, "Nothing that is kept is selected, and nothing is sent again.")
		return err
	}
	if _, err := fmt.Fprintln(s.out, onTheirWay(r.Replayed)+"."); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(r.Refused)) {
		fmt.Fprintf(s.notes, "not %s: %s\n", plain(id), plain(r.Refused[id]))
	}
	if more := r.NotReplayed - len(r.Refused); more > 0 {
		fmt.Fprintf(s.notes, "and %d more\n", more)
	}
	if r.More {
		fmt.Fprintln(s.notes, "There are more: narrow the time with --since and --until to replay the others.")
	}
	return nil
}
