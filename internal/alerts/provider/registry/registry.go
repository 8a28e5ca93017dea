// Package registry lists the destination types that are built. To add a type, write its package and add it to the table here.
package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"notifier/internal/alerts/provider"
	"notifier/internal/alerts/provider/alertmanager"
	"notifier/internal/alerts/provider/azuredevops"
	"notifier/internal/alerts/provider/azureeventhub"
	"notifier/internal/alerts/provider/bitbucket"
	"notifier/internal/alerts/provider/bitbucketserver"
	"notifier/internal/alerts/provider/cloudevents"
	"notifier/internal/alerts/provider/datadog"
	"notifier/internal/alerts/provider/discord"
	"notifier/internal/alerts/provider/email"
	"notifier/internal/alerts/provider/generic"
	"notifier/internal/alerts/provider/gitea"
	"notifier/internal/alerts/provider/githost"
	"notifier/internal/alerts/provider/github"
	"notifier/internal/alerts/provider/gitlab"
	"notifier/internal/alerts/provider/googlechat"
	"notifier/internal/alerts/provider/googlepubsub"
	"notifier/internal/alerts/provider/grafana"
	"notifier/internal/alerts/provider/incidentio"
	"notifier/internal/alerts/provider/lark"
	"notifier/internal/alerts/provider/mastodon"
	"notifier/internal/alerts/provider/matrix"
	"notifier/internal/alerts/provider/mattermost"
	"notifier/internal/alerts/provider/msteams"
	"notifier/internal/alerts/provider/nats"
	"notifier/internal/alerts/provider/opsgenie"
	"notifier/internal/alerts/provider/otel"
	"notifier/internal/alerts/provider/pagerduty"
	"notifier/internal/alerts/provider/rocket"
	"notifier/internal/alerts/provider/sentry"
	"notifier/internal/alerts/provider/slack"
	"notifier/internal/alerts/provider/telegram"
	"notifier/internal/alerts/provider/webex"
	"notifier/internal/alerts/provider/zoom"
	"notifier/internal/alerts/provider/zulip"
	"notifier/internal/event"
)

// destination is one type of destinations.
type destination struct {
	new func(provider.Config) (provider.Sender, error)
	// takes reports which events the type is sent.
	takes provider.Takes
	// keys are the Secret's keys that the type reads besides the common ones.
	keys []string
}

// destinations are the types and how each is built.
var destinations = map[string]destination{
	"alertmanager":              {new: provider.Builder(alertmanager.New), takes: provider.TakesOutcomes},
	"azuredevops":               {new: provider.Builder(azuredevops.New), takes: githost.TakesSHA1Results, keys: provider.TLSKeys[:]},
	"azureeventhub":             {new: provider.Builder(azureeventhub.New), takes: provider.TakesMessages},
	"bitbucket":                 {new: provider.Builder(bitbucket.New), takes: githost.TakesSHA1Results, keys: provider.TLSKeys[:]},
	"bitbucketserver":           {new: provider.Builder(bitbucketserver.New), takes: githost.TakesSHA1Results, keys: provider.TLSKeys[:]},
	"cloudevents":               {new: provider.Builder(cloudevents.New), takes: provider.TakesAll},
	"datadog":                   {new: provider.Builder(datadog.New), takes: provider.TakesMessagesAndClosings},
	"discord":                   {new: provider.Builder(discord.New), takes: provider.TakesMessages},
	"email":                     {new: provider.Builder(email.New), takes: provider.TakesMessages},
	"generic":                   {new: provider.Builder(generic.New), takes: provider.TakesAll},
	"generic-hmac":              {new: provider.Builder(generic.New), takes: provider.TakesAll},
	"gitea":                     {new: provider.Builder(gitea.New), takes: githost.TakesStatuses, keys: provider.TLSKeys[:]},
	"giteapullrequestcomment":   {new: provider.Builder(gitea.New), takes: githost.TakesComments},
	"github":                    {new: provider.Builder(github.New), takes: githost.TakesSHA1Results, keys: github.Keys},
	"githubdispatch":            {new: provider.Builder(github.New), takes: provider.TakesMessages, keys: github.Keys},
	"githubpullrequestcomment":  {new: provider.Builder(github.New), takes: githost.TakesComments, keys: github.Keys},
	"gitlab":                    {new: provider.Builder(gitlab.New), takes: githost.TakesResults, keys: provider.TLSKeys[:]},
	"gitlabmergerequestcomment": {new: provider.Builder(gitlab.New), takes: githost.TakesComments, keys: provider.TLSKeys[:]},
	"googlechat":                {new: provider.Builder(googlechat.New), takes: provider.TakesMessages},
	"googlepubsub":              {new: provider.Builder(googlepubsub.New), takes: provider.TakesMessages},
	"grafana":                   {new: provider.Builder(grafana.New), takes: provider.TakesMessagesAndClosings},
	"incident.io":               {new: provider.Builder(incidentio.New), takes: provider.TakesOutcomes},
	"lark":                      {new: provider.Builder(lark.New), takes: provider.TakesMessages},
	"mastodon":                  {new: provider.Builder(mastodon.New), takes: provider.TakesMessages},
	"matrix":                    {new: provider.Builder(matrix.New), takes: provider.TakesMessages},
	"mattermost":                {new: provider.Builder(mattermost.New), takes: provider.TakesMessages},
	"msteams":                   {new: provider.Builder(msteams.New), takes: provider.TakesMessages},
	"nats":                      {new: provider.Builder(nats.New), takes: provider.TakesMessages, keys: nats.Keys},
	"opsgenie":                  {new: provider.Builder(opsgenie.New), takes: provider.TakesOutcomes},
	"otel":                      {new: provider.Builder(otel.New), takes: otel.Takes},
	"pagerduty":                 {new: provider.Builder(pagerduty.New), takes: provider.TakesIncidents},
	"rocket":                    {new: provider.Builder(rocket.New), takes: provider.TakesMessages},
	"sentry":                    {new: provider.Builder(sentry.New), takes: provider.TakesMessagesAndClosings},
	"slack":                     {new: provider.Builder(slack.New), takes: provider.TakesMessages},
	"telegram":                  {new: provider.Builder(telegram.New), takes: provider.TakesMessages},
	"webex":                     {new: provider.Builder(webex.New), takes: provider.TakesMessages},
	"zoom":                      {new: provider.Builder(zoom.New), takes: provider.TakesMessages},
	"zulip":                     {new: provider.Builder(zulip.New), takes: provider.TakesMessages},
}

// UnsupportedTypeError means that no destination of a type is built.
type UnsupportedTypeError struct {
	Type      string
	Supported []string
}

func (e *UnsupportedTypeError) Error() string {
	return fmt.Sprintf("type %q is not supported; supported are %s", e.Type, strings.Join(e.Supported, ", "))
}

// Types returns the Provider types that are built, in order.
func Types() []string { return slices.Sorted(maps.Keys(destinations)) }

// Builds reports whether a type is built.
func Builds(typ string) bool {
	_, ok := destinations[typ]
	return ok
}

// Keys returns the keys of a Provider's Secret that a type reads besides the common ones.
func Keys(typ string) []string { return destinations[typ].keys }

// Takes returns the function that reports which events a type is sent, nil for a type that is not built.
func Takes(typ string) provider.Takes { return destinations[typ].takes }

// Resolves reports whether what a failure opens at a type stays open until a recovery, as an incident, a commit's status or a comment does: the
// type is sent recoveries that only close.
func Resolves(typ string) bool {
	info := func(reason string, metadata map[string]string) provider.Notification {
		return provider.Notification{Event: event.Event{Severity: event.SeverityInfo, Reason: reason, Metadata: metadata}}
	}
	closes := info("ReconciliationSucceeded", map[string]string{
		provider.CommitStatusKey: "update", provider.CommitKey: strings.Repeat("c", provider.SHA1Digits), provider.ChangeRequestKey: "1",
	})
	underWay := info("Progressing", map[string]string{provider.CommitStatusKey: "update"})
	takes := Takes(typ)
	return takes != nil && takes(closes) && !takes(underWay) // what takes both takes all
}

// New returns the destination of cfg.Type. It does not connect. The error quotes no secret. It is an *UnsupportedTypeError if the type
// is not built.
func New(cfg provider.Config) (provider.Sender, error) {
	d, ok := destinations[cfg.Type]
	if !ok {
		return nil, &UnsupportedTypeError{Type: cfg.Type, Supported: Types()}
	}
	return d.new(cfg)
}

// Limits are the limits of destinations whose Providers name none.
type Limits struct {
	// Slack is for addresses on slack.com. Slack publishes one message a second and channel, with short bursts, and may disable an app
	// that ignores the limit.
	Slack provider.Limit
}

// DefaultLimits returns the published limits of the destinations.
func DefaultLimits() Limits { return Limits{Slack: provider.Limit{Rate: 1, Burst: 3}} }

// Of returns the limit of a destination.
func (l Limits) Of(s provider.Sender) provider.Limit {
	switch s := s.(type) {
	case *slack.Sender:
		if s.OnSlack() {
			return l.Slack
		}
	case provider.Limited:
		return s.Limit()
	}
	return provider.Limit{}
}
