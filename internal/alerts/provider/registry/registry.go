// Package registry lists the destination types that are built. To add one, write its package and add it to the table here.
package registry

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/time/rate"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/generic"
	"notifier/internal/alerts/provider/msteams"
	"notifier/internal/alerts/provider/slack"
)

// Sender is what every destination built here can do.
type Sender interface {
	provider.Sender
	io.Closer
}

// destination is one package of destinations.
type destination struct {
	types []string
	new   func(provider.Config) (Sender, error)
}

var destinations = []destination{
	{types: generic.Types, new: builder(generic.New)},
	{types: msteams.Types, new: builder(msteams.New)},
	{types: slack.Types, new: builder(slack.New)},
}

// builder hides a constructor's own type, keeping a nil pointer from becoming a Sender that is not nil.
func builder[S Sender](build func(provider.Config) (S, error)) func(provider.Config) (Sender, error) {
	return func(cfg provider.Config) (Sender, error) {
		s, err := build(cfg)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// UnsupportedTypeError says that no destination of a type is built.
type UnsupportedTypeError struct {
	Type      string
	Supported []string
}

func (e *UnsupportedTypeError) Error() string {
	return fmt.Sprintf("type %q is not supported; supported are %s", e.Type, strings.Join(e.Supported, ", "))
}

// Types returns the Provider types that are built, in order.
func Types() []string {
	var types []string
	for _, d := range destinations {
		types = append(types, d.types...)
	}
	slices.Sort(types)
	return types
}

// New builds the destination of cfg.Type. It does not connect. The error quotes nothing secret and is an *UnsupportedTypeError
// if the type is not built.
func New(cfg provider.Config) (Sender, error) {
	d, ok := find(cfg.Type)
	if !ok {
		return nil, &UnsupportedTypeError{Type: cfg.Type, Supported: Types()}
	}
	return d.new(cfg)
}

// Limit is how many messages a second a destination takes, and in what bursts. A Rate of 0 is no limit.
type Limit struct {
	Rate  rate.Limit
	Burst int
}

// Limits are the limits of destinations whose Providers name none.
type Limits struct {
	// Slack is for addresses on slack.com: Slack publishes one message a second and channel, with short bursts, and may disable an
	// app that ignores it.
	Slack Limit
}

// DefaultLimits are what the destinations publish.
func DefaultLimits() Limits { return Limits{Slack: Limit{Rate: 1, Burst: 3}} }

// Of returns the limit of a destination.
func (l Limits) Of(s Sender) Limit {
	if s, ok := s.(*slack.Sender); ok && s.OnSlack() {
		return l.Slack
	}
	return Limit{}
}

func find(typ string) (destination, bool) {
	i := slices.IndexFunc(destinations, func(d destination) bool { return slices.Contains(d.types, typ) })
	if i < 0 {
		return destination{}, false
	}
	return destinations[i], true
}
