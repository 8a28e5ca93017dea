package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Fact is one entry of an event's metadata, to be shown. Authored says that the Alert's author wrote it, whose markup means what it says:
// the destination is the author's own.
type Fact struct {
	Name, Value string
	Authored    bool
}

// Show returns the fact's name and value as a destination gets them: as they are written by the Alert's author, else escaped.
func (f Fact) Show(escape func(string) string) (name, value string) {
	if f.Authored {
		return f.Name, f.Value
	}
	return escape(f.Name), escape(f.Value)
}

// maxFacts bounds how many facts a message shows; metadata is outside input and may hold any number.
const maxFacts = 32

// MoreFacts is the name of the last fact where some were left out.
const MoreFacts = "…"

// Facts returns the notification's metadata in the order to show it: the summary first, the rest by name. Beyond 32 a last fact says
// how many were left out. Names and values longer than maxRunes are cut.
func Facts(n Notification, maxRunes int) []Fact {
	names := slices.SortedFunc(maps.Keys(n.Event.Metadata), func(a, b string) int {
		if first := boolOrder(a == "summary", b == "summary"); first != 0 {
			return first
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

// ObjectID identifies the event's object as long as it exists: by its UID or, where the event has none, by a digest of its name.
func ObjectID(n Notification) string {
	o := n.Event.InvolvedObject
	if o.UID != "" {
		return o.UID
	}
	digest := sha256.Sum256([]byte(o.Kind + "/" + o.Namespace + "/" + o.Name))
	return hex.EncodeToString(digest[:])
}

// boolOrder orders true before false.
func boolOrder(a, b bool) int {
	switch {
	case a && !b:
		return -1
	case b && !a:
		return 1
	default:
		return 0
	}
}

const truncated = "… (truncated)"

// reorders are the characters that show what stands around them in another order (Unicode, UAX 9: embeddings, overrides and isolates), by
// which a text is not what its reader sees. Marks of a direction stay: they order nothing but themselves.
var reorders = strings.NewReplacer(
	"\u202A", "", "\u202B", "", "\u202C", "", "\u202D", "", "\u202E", "", "\u2066", "", "\u2067", "", "\u2068", "", "\u2069", "",
)

// Truncate cuts s to at most maxRunes characters, of which the last say so if anything was cut, and makes it valid UTF-8 without characters
// that reorder text.
func Truncate(s string, maxRunes int) string {
	s = reorders.Replace(strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) <= maxRunes || utf8.RuneCountInString(s) <= maxRunes {
		return s
	}
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

// Visible returns s, or another text in place of one that shows nothing, which many vendors refuse.
func Visible(s, instead string) string {
	if strings.TrimSpace(s) == "" {
		return instead
	}
	return s
}

// KnownWord returns word if it is one of known, else nothing. What a destination answers is its own text; a word that is known says nothing
// but itself.
func KnownWord(word string, known ...[]string) string {
	for _, list := range known {
		if i := slices.Index(list, word); i >= 0 {
			return list[i]
		}
	}
	return ""
}

// WordAt returns a ClientOptions.Word that reads a text in JSON, at a path of keys, and knows some.
func WordAt(known []string, path ...string) func(answer []byte) string {
	return func(answer []byte) string {
		for _, key := range path {
			var fields map[string]json.RawMessage
			if json.Unmarshal(answer, &fields) != nil {
				return ""
			}
			answer = fields[key]
		}
		var word string
		if json.Unmarshal(answer, &word) != nil {
			return ""
		}
		return KnownWord(word, known)
	}
}

// BreakLinks keeps text from hiding an address behind a label in Markdown: "[label](address)" is shown as it is written. The
// text of an event comes from tools, commits and unauthenticated senders, and readers trust what a bot links to.
func BreakLinks(s string) string { return strings.ReplaceAll(s, "](", "]\u200B(") }

// EscapeEntities escapes the characters that mean something in HTML, and in the markups that take its character references.
var EscapeEntities = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace

// EscapeHTML returns s as text that HTML shows as it is, of at most maxRunes characters after escaping. What is cut is cut before escaping,
// so that no escape is halved.
func EscapeHTML(s string, maxRunes int) string {
	return Fit(s, maxRunes, utf8.RuneCountInString, EscapeEntities)
}
