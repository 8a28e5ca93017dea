package githost

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// The keys of the marks in comments, as Flux writes them.
const (
	PullRequestKey  = "flux-pr-comment-key"
	MergeRequestKey = "flux-mr-comment-key"
)

// Bounds of a comment, in characters.
const (
	// maxBody is below the bound of the strictest host, GitHub's 65,536.
	maxBody    = 60_000
	maxMessage = 40_000 // of the message before it is escaped
	maxFact    = 300    // of a name or a value of the metadata
	maxName    = 253
)

// TakesComments is for types that comment on a pull or merge request. Of the events that only update a commit's status it takes those by
// which the comment of a failure is edited.
func TakesComments(n provider.Notification) bool {
	return provider.TakesChangeRequests(n) && provider.TakesMessagesAndClosings(n)
}

// changeRequest returns the number of the pull or merge request that the event names. Its errors are *event.Error.
func changeRequest(n provider.Notification) (int64, error) {
	number, err := strconv.ParseInt(n.Reported(provider.ChangeRequestKey), 10, 64)
	if err != nil || number <= 0 {
		return 0, event.NewError(event.Permanent, provider.LabelPayload, "metadata change_request of the event is not a number", nil)
	}
	return number, nil
}

// markerOf returns the mark by which the comment about an object is found, an HTML comment. Valid names of Kubernetes are written
// unchanged.
func markerOf(key, providerUID string, o event.ObjectReference) string {
	return fmt.Sprintf("<!-- %s:%s/%s/%s/%s -->", key, markable(providerUID), markable(o.Kind), markable(o.Namespace), markable(o.Name))
}

// markable writes the bytes that no name of Kubernetes has, and those that might end the mark, as "%" and digits.
func markable(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < 0x80 && wordly(c) || strings.IndexByte("-.:", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	return b.String()
}

// The signs before the object's name, as Flux writes them.
const (
	goodSign = "ℹ️"
	badSign  = "⚠️"
)

// tellsFailure reports whether a comment is about a failure.
func tellsFailure(body string) bool { return strings.Contains(body, "\n"+badSign+" ") }

// textOf returns the text of a comment, which begins with its mark.
func textOf(marker string, n provider.Notification) string {
	e := n.Event
	sign := provider.BySeverity(e, goodSign, badSign)
	o := e.InvolvedObject
	name := func(s string) string { return escapeInline(provider.Truncate(s, maxName)) }
	head := fmt.Sprintf("%s\n\n## Flux Status\n\n%s %s/%s/%s\n\n", marker, sign, name(o.Kind), name(o.Namespace), name(o.Name))
	tail := metadata(n)
	return head + fit(e.Message, maxBody-utf8.RuneCountInString(head)-utf8.RuneCountInString(tail)) + tail
}

// fit returns a message, escaped, of at most limit characters. It cuts before it escapes, so that no escape is halved.
func fit(message string, limit int) string {
	message = strings.Trim(provider.Truncate(message, maxMessage), "\r\n")
	return provider.FitRunes(message, limit, escape)
}

// metadata returns the metadata as a list by name, empty if there is none. It leaves out the change request, which the comment is on.
func metadata(n provider.Notification) string {
	shown := n
	shown.Event.Metadata = maps.Clone(n.Event.Metadata)
	delete(shown.Event.Metadata, provider.ChangeRequestKey)
	facts := provider.Facts(shown, maxFact)
	if len(facts) == 0 {
		return ""
	}
	slices.SortStableFunc(facts, func(a, b provider.Fact) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	b.WriteString("\n\nMetadata:\n")
	for _, f := range facts {
		_, value := f.Show(escapeInline)
		// Within a code span only its end has a meaning.
		fmt.Fprintf(&b, "* `%s`: %s\n", strings.ReplaceAll(plain(f.Name), "`", "'"), strings.Join(strings.Fields(value), " "))
	}
	return b.String()
}
