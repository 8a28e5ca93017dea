package page

import (
	"unicode"
	"unicode/utf8"
)

// labels are how words of the API are called on the page, where that is not the word itself.
var labels = map[string]string{"post": "posted by its controller", "watch": "found in the object's state"}

// label is how a word of the API is called on the page.
func label[S ~string](word S) string {
	s := string(word)
	if l, ok := labels[s]; ok {
		s = l
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// tones are the colours of words that are shown as chips, calm where there is none.
var tones = map[string]string{
	"sent": "good", "ready": "good", "accepted": "good", "pending": "wait", "degraded": "wait",
	"dead": "bad", "not ready": "bad", "error": "bad", "unauthentic": "bad", "failed": "bad",
}

// tone is the colour of a word that is shown as a chip.
func tone[S ~string](word S) string {
	if t, ok := tones[string(word)]; ok {
		return t
	}
	return "calm"
}
