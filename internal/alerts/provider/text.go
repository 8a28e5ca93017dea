package provider

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"notifier/internal/event"
)

// Fact is one entry of an event's metadata, to be shown. Authored means that the Alert's author wrote it. Its markup then takes
// effect, since the destination is the author's own.
type Fact struct {
	Name, Value string
	Authored    bool
}

// Markup returns the function by which the fact's texts are sent: authored if the Alert's author wrote them, else escape.
func (f Fact) Markup(escape, authored func(string) string) func(string) string {
	if f.Authored {
		return authored
	}
	return escape
}

// Show returns the fact's name and value as they are sent: unchanged if the Alert's author wrote them, else escaped.
func (f Fact) Show(escape func(string) string) (name, value string) {
	markup := f.Markup(escape, AsIs)
	return markup(f.Name), markup(f.Value)
}

// AsIs returns s.
func AsIs(s string) string { return s }

// BySeverity returns failure for an event of severity error, else other.
func BySeverity[T any](e event.Event, other, failure T) T {
	if e.Severity == event.SeverityError {
		return failure
	}
	return other
}

// maxFacts bounds the number of facts that a message shows. Metadata is outside input and may have any number of entries.
const maxFacts = 32

// MoreFacts is the name of the last fact if some were left out.
const MoreFacts = "…"

// Facts returns the notification's metadata in the order to show it: the summary first, the rest by name. Beyond 32 entries a last
// fact gives the number left out. Names and values longer than maxRunes are cut.
func Facts(n Notification, maxRunes int) []Fact {
	names := slices.SortedFunc(maps.Keys(n.Event.Metadata), func(a, b string) int {
		switch {
		case a != b && a == "summary":
			return -1
		case a != b && b == "summary":
			return 1
		}
		return strings.Compare(a, b)
	})
	left := len(names) - maxFacts
	if left > 0 {
		names = names[:maxFacts]
	}
	facts := make([]Fact, 0, len(names)+1)
	for _, name := range names {
		facts = append(facts, Fact{
			Truncate(name, maxRunes), Truncate(n.Event.Metadata[name], maxRunes), slices.Contains(n.Authored, name),
		})
	}
	if left > 0 {
		facts = append(facts, Fact{Name: MoreFacts, Value: fmt.Sprintf("%d more left out", left)})
	}
	return facts
}

// FactMap returns Facts by their names.
func FactMap(n Notification, maxRunes int) map[string]string {
	facts := map[string]string{}
	for _, f := range Facts(n, maxRunes) {
		facts[f.Name] = f.Value
	}
	return facts
}

// ObjectID returns an identity of the event's object for its lifetime: its UID or, if the event has none, a digest of its name.
func ObjectID(n Notification) string {
	o := n.Event.InvolvedObject
	if o.UID != "" {
		return o.UID
	}
	digest := sha256.Sum256([]byte(o.Kind + "/" + o.Namespace + "/" + o.Name))
	return hex.EncodeToString(digest[:])
}

// ObjectKey returns an identity of an object at one Provider. It is the same for an object that was deleted and made again.
func ObjectKey(providerUID string, o event.ObjectReference) string {
	digest := sha256.Sum256([]byte(strings.Join([]string{providerUID, o.Kind, o.Namespace, o.Name}, "/")))
	return hex.EncodeToString(digest[:])
}

const truncated = "… (truncated)"

// reorders reports whether a character shows the text around it in another order (Unicode, UAX 9: embeddings, overrides and isolates).
// With them a reader sees another text than the written one. Marks of a direction stay: they order nothing but themselves.
func reorders(r rune) bool { return '\u202A' <= r && r <= '\u202E' || '\u2066' <= r && r <= '\u2069' }

// Truncate returns s as valid UTF-8 of at most maxRunes characters, without characters that reorder text. A cut text ends in a mark.
func Truncate(s string, maxRunes int) string {
	s = clean(s, max(maxRunes, 0)+1)
	if len(s) <= maxRunes || utf8.RuneCountInString(s) <= maxRunes {
		return s
	}
	return cut(s, maxRunes)
}

// clean returns the first characters of s as valid UTF-8, at most so many, without those that reorder text. It reads no more of s than
// that, and reads it once: megabytes may be removed.
func clean(s string, most int) string {
	var b strings.Builder
	from, wasInvalid := 0, false // s[:from] is in b
	for i, r := range s {
		invalid := r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD")
		dropped := reorders(r) || invalid && wasInvalid // as with strings.ToValidUTF8, invalid bytes in a row become one character
		wasInvalid = invalid
		if !dropped {
			if most == 0 {
				return b.String() + s[from:i]
			}
			most--
		}
		if dropped || invalid {
			b.WriteString(s[from:i])
			from = i + len("\u202A")
		}
		if invalid {
			from = i + 1
			if !dropped {
				b.WriteString("\uFFFD")
			}
		}
	}
	return b.String() + s[from:]
}

// cut returns a text that is longer than maxRunes characters as one of so many, or of the mark alone.
func cut(s string, maxRunes int) string {
	mark := truncated
	if maxRunes < 4*len(truncated) {
		mark = "…"
	}
	keep := max(maxRunes-utf8.RuneCountInString(mark), 0)
	for i := range s {
		if keep == 0 {
			return s[:i] + mark
		}
		keep--
	}
	return s
}

// Visible returns s, or instead if s shows nothing. Many vendors refuse an invisible text.
func Visible(s, instead string) string {
	if strings.TrimSpace(s) == "" {
		return instead
	}
	return s
}

// KnownWord returns the first of the words that is in the list known, or an empty string. The text of an answer is the destination's own; a
// known word reveals nothing but itself.
func KnownWord(known []string, words ...string) string {
	for _, word := range words {
		if i := slices.Index(known, word); i >= 0 {
			return known[i]
		}
	}
	return ""
}

// WordAt returns a ClientOptions.Word that reads the text at a path of keys in JSON, with dots between them, and returns it if it is
// known.
func WordAt(path string, known ...string) func(answer []byte) string {
	return func(answer []byte) string {
		var word string
		if decodeAt(answer, path, &word) != nil {
			return ""
		}
		return KnownWord(known, word)
	}
}

// WordIn is WordAt for a list of texts, of which it returns the first that is known.
func WordIn(path string, known ...string) func(answer []byte) string {
	return func(answer []byte) string {
		var words []string
		if decodeAt(answer, path, &words) != nil {
			return ""
		}
		return KnownWord(known, words...)
	}
}

// WordOrAt is WordAt for answers that may also be the text itself.
func WordOrAt(path string, known ...string) func(answer []byte) string {
	at := WordAt(path, known...)
	return func(answer []byte) string {
		return cmp.Or(KnownWord(known, strings.TrimSpace(string(answer))), at(answer))
	}
}

// BreakLinks keeps text from hiding an address behind a label in Markdown: "[label](address)" and the definition "[label]: address" are
// shown as they are written. The text of an event is written by tools, commits and unauthenticated senders, and readers trust the links of
// a bot.
func BreakLinks(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "](", "]\u200B("), "]:", "]\u200B:")
}

// BreakLabels is BreakLinks for servers that also read Slack's "<address|label>".
func BreakLabels(s string) string { return strings.ReplaceAll(BreakLinks(s), "<", "<\u200B") }

// EscapeEntities escapes the characters that have a meaning in HTML, and in the markups that use its character references.
var EscapeEntities = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace

// EscapeHTML returns s as text that HTML shows unchanged, of at most maxRunes characters after escaping. It cuts before it escapes, so
// that no escape is halved.
func EscapeHTML(s string, maxRunes int) string {
	return FitRunes(s, maxRunes, EscapeEntities)
}
