package page

import (
	"unicode"
	"unicode/utf8"
)

// labels are the names of the API's words on the page, if they differ from the words.
var labels = map[string]string{"post": "posted by its controller", "watch": "found in the object's state"}

// label returns the name of an API's word on the page.
func label[S ~string](word S) string {
	s := string(word)
	if l, ok := labels[s]; ok {
		s = l
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// tones are the colours of words in chips. The default is calm.
var tones = map[string]string{
	"sent": "good", "ready": "good", "accepted": "good", "pending": "wait", "degraded": "wait",
	"dead": "bad", "not ready": "bad", "error": "bad", "unauthentic": "bad", "failed": "bad",
}

// tone returns the colour of a word in a chip.
func tone[S ~string](word S) string {
	if t, ok := tones[string(word)]; ok {
		return t
	}
	return "calm"
}
