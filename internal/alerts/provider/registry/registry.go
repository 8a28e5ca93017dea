// Package registry lists the destination types that are built. To add one, write its package and add it to the table here.
package registry

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

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
	limit rate.Limit // zero: none is published
	burst int
}

var destinations = []destination{
	{types: generic.Types, new: builder(generic.New)},
	{types: msteams.Types, new: builder(msteams.New)},
	// Slack publishes one message a second and channel, with short bursts, and may disable an app that ignores it.
	{types: slack.Types, new: builder(slack.New), limit: rate.Every(time.Second), burst: 3},
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

// DefaultLimit returns how many messages a second the destination of a type publishes that it takes, and in what bursts. It is
// rate.Inf for a type that publishes none.
func DefaultLimit(typ string) (limit rate.Limit, burst int) {
	d, ok := find(typ)
	if !ok || d.limit == 0 {
		return rate.Inf, 0
	}
	return d.limit, d.burst
}

func find(typ string) (destination, bool) {
	i := slices.IndexFunc(destinations, func(d destination) bool { return slices.Contains(d.types, typ) })
	if i < 0 {
		return destination{}, false
	}
	return destinations[i], true
}
