package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"notifier/internal/api/client"
	"notifier/internal/event/view"
)

// session is one run of a command: its flags, the API and the outputs.
type session struct {
	connection
	selection
	api        *client.Client
	out, notes io.Writer
	// format is the form of results.
	format string
	// more says that older items may be left out because of the limit.
	more bool
}

func (s *session) check() (err error) {
	if s.format != "" && !slices.Contains(s.formats(), s.format) {
		err = fmt.Errorf("--output: %q is none of %s", s.format, strings.Join(s.formats(), ", "))
	}
	return errors.Join(err, s.selection.check(), s.connection.check())
}

// formats returns the forms of the command's output.
func (s *session) formats() []string {
	if s.lists {
		return append(slices.Clone(formats), formatName)
	}
	return formats
}

// machine reports whether the output is for a program.
func (s *session) machine() bool { return s.format == formatJSON || s.format == formatYAML }

// selection selects the items of a list.
type selection struct {
	query      view.Query
	all, watch bool
	// lists says that the command shows a list.
	lists bool
}

// flags declares the flags of every list.
func (s *selection) flags(fs *pflag.FlagSet) {
	s.lists = true
	s.timeFlags(fs)
	fs.IntVar(&s.query.Limit, "limit", view.DefaultLimit, "how many items are shown at most, the newest; 0 for all")
	fs.BoolVarP(&s.all, "all-namespaces", "A", false, "show items of all namespaces that you may list")
	fs.BoolVarP(&s.watch, "watch", "w", false, "go on with new items as they come")
}

// timeFlags declares the flags that select by time.
func (s *selection) timeFlags(fs *pflag.FlagSet) {
	at := func(into *time.Time) func(string) error {
		return func(text string) (err error) {
			*into, err = view.ParseTime(text, time.Now())
			return err
		}
	}
	fs.Func("since", "only those since then: how long ago, such as 1h or 7d, or a `time` such as 2026-01-31T12:00:00Z", at(&s.query.Since))
	fs.Func("until", "only those before then, in the same form of a `time`", at(&s.query.Until))
}

func (s *selection) check() error {
	var errs []error
	if s.watch && !s.query.Until.IsZero() {
		errs = append(errs, errors.New("--until: it cannot be used with --watch"))
	}
	if s.query.Limit < 0 {
		errs = append(errs, errors.New("--limit: it takes a number that is not negative"))
	}
	if s.query.State != "" && !slices.Contains([]view.State{view.StatePending, view.StateSent, view.StateDead}, s.query.State) {
		errs = append(errs, fmt.Errorf("--state: %q is none of pending, sent, dead", s.query.State))
	}
	return errors.Join(errs...)
}

// namespaces returns the namespaces of the command.
func (s *session) namespaces(ctx context.Context) ([]string, error) {
	if s.all {
		found, err := retried(ctx, s, maybeLater, func() (view.Namespaces, error) { return s.api.Namespaces(ctx) })
		if found.Incomplete {
			fmt.Fprintln(s.notes, "There are more namespaces than were looked at: name one with -n.")
		}
		return found.Items, err
	}
	namespace, err := s.ns()
	return []string{namespace}, err
}

// list shows the items of a list, newest first, and then new items if the flags ask for them.
func list[T view.Item](ctx context.Context, s *session, of view.List, columns []column[T]) error {
	columns = columnsFor(columns, s.format, s.all)
	if s.watch {
		err := watched(ctx, s, of, columns)
		if ctx.Err() != nil {
			return nil // the caller has stopped it
		}
		return err
	}
	namespaces, err := s.namespaces(ctx)
	if err != nil {
		return err
	}
	items, err := listed[T](ctx, s, namespaces, of)
	if err != nil && len(items) == 0 {
		return err
	}
	return errors.Join(show(s, columns, items), err)
}

// listed returns the items of a list in some namespaces, newest first. A namespace that the caller may not list, or that is gone, leaves the
// others: the last one is the error, each before it is noted.
func listed[T view.Item](ctx context.Context, s *session, namespaces []string, of view.List) (items []T, refused error) {
	for _, namespace := range namespaces {
		found, err := pages[T](ctx, s, namespace, of)
		if err != nil {
			err = inNamespace(namespace, err)
			if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != http.StatusForbidden && e.Status != http.StatusNotFound {
				return nil, err
			}
			if refused != nil {
				fmt.Fprintln(s.notes, plain(refused.Error()))
			}
			refused = err
		}
		items = append(items, found...)
	}
	slices.SortStableFunc(items, func(a, b T) int { return b.At().Compare(a.At()) })
	if s.query.Limit > 0 && len(items) > s.query.Limit {
		items, s.more = items[:s.query.Limit], true
	}
	if s.more {
		fmt.Fprintf(s.notes, "The list ends after %d, and there may be older ones: --limit=0 shows all.\n", len(items))
	}
	return items, refused
}

// inNamespace adds the namespace to an error.
func inNamespace(namespace string, err error) error {
	return fmt.Errorf("namespace %s: %w", namespace, err)
}

// pages reads a list page by page, up to the limit.
func pages[T any](ctx context.Context, s *session, namespace string, of view.List) (items []T, err error) {
	q, most := s.query, cmp.Or(s.query.Limit, math.MaxInt)
	for {
		q.Limit = min(most-len(items), view.MaxLimit)
		page, err := retried(ctx, s, maybeLater, func() (view.Page[T], error) { return client.Page[T](ctx, s.api, namespace, of, q) })
		if err != nil {
			return nil, err
		}
		items = append(items, page.Items...)
		if page.Next == "" || len(items) >= most {
			s.more = s.more || page.Next != ""
			return items, nil
		}
		q.Cursor = page.Next
	}
}

// columnsFor returns the columns of a table. Wide columns and the namespace are left out unless they are asked for.
func columnsFor[T any](all []column[T], format string, namespaced bool) []column[T] {
	return slices.DeleteFunc(slices.Clone(all), func(c column[T]) bool {
		if format == formatName {
			return c.name != idColumn
		}
		return c.wide && format != formatWide || c.name == namespaceColumn && !namespaced
	})
}

const (
	// namespaceColumn is shown if there may be several namespaces.
	namespaceColumn = "NAMESPACE"
	// idColumn has what other commands take as the item's ID.
	idColumn = "ID"
)

// show writes the listed items.
func show[T any](s *session, columns []column[T], items []T) error {
	if s.machine() {
		if s.watch {
			for _, item := range slices.Backward(items) {
				if err := showOne(s, columns, item); err != nil {
					return err
				}
			}
			return nil
		}
		return s.write(view.Page[T]{Items: append([]T{}, items...)})
	}
	if s.watch {
		items = slices.Clone(items)
		slices.Reverse(items) // new items follow below them
	}
	if len(items) == 0 && !s.watch {
		return nothing(s)
	}
	return rows(s, columns, items, s.format != formatName)
}

// rows writes items in columns. In a list of IDs an item without an ID has no line: the sender of a webhook may give it none.
func rows[T any](s *session, columns []column[T], items []T, head bool) error {
	if s.format == formatName {
		items = slices.DeleteFunc(slices.Clone(items), func(item T) bool { return columns[0].of(item) == "" })
	}
	return table(s.out, columns, items, head)
}

// nothing says that there is nothing to show, and suggests another place to look.
func nothing(s *session) error {
	hint := "Nothing of that kind is kept in the namespaces that you may list."
	if namespace, _ := s.ns(); !s.all {
		hint = fmt.Sprintf("Nothing that was asked for is kept in namespace %s; -A looks in all that you may list.", namespace)
	}
	_, err := fmt.Fprintln(s.notes, "Nothing found. "+hint)
	return err
}

// showOne writes a new item.
func showOne[T any](s *session, columns []column[T], item T) error {
	switch s.format {
	case formatJSON:
		text, err := json.Marshal(item)
		if err != nil {
			return err
		}
		_, err = s.out.Write(append(escaped(text, jsonEscape), '\n'))
		return err
	case formatYAML:
		if _, err := fmt.Fprintln(s.out, "---"); err != nil {
			return err
		}
		return s.write(item)
	}
	return rows(s, columns, []T{item}, false)
}
