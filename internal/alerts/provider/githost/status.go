package githost

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// Form is the form in which a host takes statuses.
type Form struct {
	// Succeeded, Failed and Pending are the host's words for the states. Pending means that work has begun and not ended. It is empty for a
	// type without such a state.
	Succeeded, Failed, Pending string
	// Name, Description and Commit are the lengths of the longest texts, in characters. Zero means that the host has no limit. A commit
	// beyond its limit is none.
	Name, Description, Commit int
}

// Status is the status of a commit by an event.
type Status struct {
	// Commit is the commit's hash in lower case.
	Commit string
	// Name distinguishes the statuses of a commit.
	Name string
	// Description is one line.
	Description string
	// State is one of the words of the host's Form.
	State string
	// Object is "kind/name" in lower case and Summary the event's summary, for hosts that show them beside the name.
	Object, Summary string
}

// TakesStatuses is for types with a state for work under way.
func TakesStatuses(n provider.Notification) bool {
	return provider.TakesCommits(n) && n.Event.Severity != event.SeverityTrace
}

// TakesResults is for types without such a state: it leaves out events about work under way.
func TakesResults(n provider.Notification) bool { return TakesStatuses(n) && !pending(n) }

// TakesSHA1Results is TakesResults for hosts whose repositories have no hashes of SHA-256: such a host would refuse the commit for ever.
func TakesSHA1Results(n provider.Notification) bool {
	return TakesResults(n) && len(provider.Commit(n)) == provider.SHA1Digits
}

// pending reports whether an event is about work under way. Its reason decides that, since such an event has the severity of a success. An
// error is a failure under every reason except Progressing.
func pending(n provider.Notification) bool {
	return provider.Progressing(n) || !provider.Failed(n) && event.Unsettled(n.Event.Reason)
}

// stateOf returns the state of an event in the host's words.
func (f Form) stateOf(n provider.Notification) string {
	if pending(n) {
		return f.Pending
	}
	return provider.BySeverity(n.Event, f.Succeeded, f.Failed)
}

// maxStatusName bounds the name of a status, in characters, if its host does not: expressions can return names of a megabyte.
const maxStatusName = 1024

// statusOf returns the status of a notification. Its errors are *event.Error.
func (s *Statuses) statusOf(ctx context.Context, n provider.Notification) (Status, error) {
	o, form := n.Event.InvolvedObject, s.form
	status := Status{
		Commit: provider.Commit(n), State: form.stateOf(n), Description: describe(n.Event.Reason, form.Description),
		Object: strings.ToLower(plain(o.Kind + "/" + o.Name)), Summary: strings.TrimSpace(plain(n.Event.Metadata["summary"])),
	}
	if status.Commit == "" || form.Commit > 0 && len(status.Commit) > form.Commit {
		return Status{}, event.NewError(event.Permanent, provider.LabelPayload,
			"event names no commit (metadata commit, originRevision or revision)", nil)
	}
	name, err := s.name(ctx, n)
	if err != nil {
		return Status{}, err
	}
	status.Name = Shorten(name, cmp.Or(form.Name, maxStatusName))
	return status, nil
}

// name returns the name of a status by the expression or, without one, by the object and the Provider.
func (s *Statuses) name(ctx context.Context, n provider.Notification) (string, error) {
	if s.expr == nil {
		return defaultName(s.uid, n.Event.InvolvedObject), nil
	}
	name, err := s.expr(ctx, n)
	if err != nil {
		return "", err
	}
	if name = strings.TrimSpace(plain(name)); name == "" {
		return "", event.NewError(event.Permanent, provider.LabelPayload, "spec.commitStatusExpr gives no text", nil)
	}
	return name, nil
}

// defaultName returns the name of a status without spec.commitStatusExpr.
func defaultName(providerUID string, o event.ObjectReference) string {
	group, _, _ := strings.Cut(providerUID, "-")
	return strings.ToLower(plain(o.Kind + "/" + o.Name + "/" + group))
}

// Shorten returns a name of at most limit characters. A longer name is cut and ends in a digest of the whole, so that different names
// stay different.
func Shorten(name string, limit int) string {
	if limit == 0 || utf8.RuneCountInString(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	end := "-" + hex.EncodeToString(sum[:6])
	return string([]rune(name)[:max(limit-len(end), 0)]) + end
}

// A text is split where its case, or letters and other characters, change. The last capital of several begins the next word: "HTTPError" is
// "HTTP", "Error".
var (
	lastCapital = regexp.MustCompile(`(\p{Lu})(\p{Lu}\p{Ll})`)
	word        = regexp.MustCompile(`\p{Lu}?\p{Ll}+|\p{Lu}+|\p{Nd}+|[^\p{Lu}\p{Ll}\p{Nd}]+`)
)

// describe returns a reason in words, in lower case, of at most limit characters: "HealthCheckFailed" is "health check failed".
func describe(reason string, limit int) string {
	limit = cmp.Or(limit, event.MessageStart)
	reason = strings.TrimSpace(plain(provider.Truncate(reason, limit)))
	words := word.FindAllString(lastCapital.ReplaceAllString(reason, "$1 $2"), -1)
	return provider.Truncate(strings.ToLower(strings.Join(strings.Fields(strings.Join(words, " ")), " ")), limit)
}

// plain returns s as valid text without characters that move or hide text.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
