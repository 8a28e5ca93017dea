package githost

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// State is the state of a commit's status.
type State int

// The states.
const (
	Succeeded State = iota
	Failed
	Pending // work has begun and not ended
)

// Status is the status of a commit by an event.
type Status struct {
	// Commit is the commit's hash in lower case.
	Commit string
	// Name distinguishes the statuses of a commit.
	Name string
	// Description is one line.
	Description string
	State       State
	// Object is "kind/name" in lower case and Summary the event's summary, for hosts that show them beside the name.
	Object, Summary string
}

// TakesStatuses is for types with a state for work under way.
func TakesStatuses(n provider.Notification) bool {
	return provider.TakesCommits(n) && n.Event.Severity != event.SeverityTrace
}

// TakesResults is for types without such a state: it leaves out events about work under way.
func TakesResults(n provider.Notification) bool { return TakesStatuses(n) && stateOf(n) != Pending }

// TakesSHA1Results is TakesResults for hosts whose repositories have no hashes of SHA-256: such a host would refuse the commit for ever.
func TakesSHA1Results(n provider.Notification) bool {
	return TakesResults(n) && len(provider.Commit(n)) == provider.SHA1Digits
}

// stateOf returns the state of an event. The reason decides whether work is under way, since such an event has the severity of a
// success. An error is a failure under every reason except Progressing.
func stateOf(n provider.Notification) State {
	failed := n.Event.Severity == event.SeverityError
	switch {
	case provider.Progressing(n), !failed && event.Unsettled(n.Event.Reason):
		return Pending
	case failed:
		return Failed
	default:
		return Succeeded
	}
}

// maxStatusName bounds the name of a status, in characters, if its host does not: expressions can return names of a megabyte.
const maxStatusName = 1024

// Limits are the lengths of the longest texts of a status that a host takes, in characters. Zero means that the host has no limit. A
// commit beyond its limit is none.
type Limits struct{ Name, Description, Commit int }

// statusOf returns the status of a notification. Its errors are *event.Error.
func statusOf(ctx context.Context, names *naming, limits Limits, n provider.Notification) (Status, error) {
	o := n.Event.InvolvedObject
	s := Status{
		Commit: provider.Commit(n), State: stateOf(n), Description: describe(n.Event.Reason, limits.Description),
		Object: strings.ToLower(plain(o.Kind + "/" + o.Name)), Summary: strings.TrimSpace(plain(n.Event.Metadata["summary"])),
	}
	if s.Commit == "" || limits.Commit > 0 && len(s.Commit) > limits.Commit {
		return Status{}, event.NewError(event.Permanent, provider.LabelPayload,
			"event names no commit (metadata commit, originRevision or revision)", nil)
	}
	name, err := names.name(ctx, n)
	if err != nil {
		return Status{}, err
	}
	s.Name = Shorten(name, cmp.Or(limits.Name, maxStatusName))
	return s, nil
}

// naming has the inputs for the name of a status.
type naming struct {
	uid  string
	expr func(ctx context.Context, n provider.Notification) (string, error)
}

func (c *naming) name(ctx context.Context, n provider.Notification) (string, error) {
	if c.expr == nil {
		return defaultName(c.uid, n.Event.InvolvedObject), nil
	}
	name, err := c.expr(ctx, n)
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

// describe returns a reason in words, in lower case, of at most limit characters: "HealthCheckFailed" is "health check failed".
func describe(reason string, limit int) string {
	limit = cmp.Or(limit, event.MessageStart)
	reason = strings.TrimSpace(plain(provider.Truncate(reason, limit)))
	return provider.Truncate(strings.ToLower(strings.Join(strings.Fields(strings.Join(words(reason), " ")), " ")), limit)
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

// words splits a text where its case, or letters and other characters, change. The last capital of several begins the next word:
// "HTTPError" is "HTTP", "Error".
func words(s string) []string {
	runes := []rune(s)
	var out []string
	start := 0
	for i := 1; i < len(runes); i++ {
		before, here := classOf(runes[i-1]), classOf(runes[i])
		if before == here || before == upper && here == lower && i-1 == start {
			continue
		}
		cut := i
		if before == upper && here == lower {
			cut = i - 1
		}
		out = append(out, string(runes[start:cut]))
		start = cut
	}
	if start < len(runes) {
		out = append(out, string(runes[start:]))
	}
	return out
}

type class int

const (
	other class = iota
	lower
	upper
	digit
)

func classOf(r rune) class {
	switch {
	case unicode.IsLower(r):
		return lower
	case unicode.IsUpper(r):
		return upper
	case unicode.IsDigit(r):
		return digit
	default:
		return other
	}
}
