package api

import "strings"

// The greatest lengths of names in Kubernetes (RFC 1123 label and subdomain), and of our IDs, in bytes.
const (
	maxNamespace = 63
	maxName      = 253
	maxID        = 128
)

// isNamespace reports whether a text can be the name of a namespace. The Authority is asked about no other text.
func isNamespace(s string) bool {
	return s != "" && len(s) <= maxNamespace && strings.Trim(s, lower+"-") == "" && s[0] != '-' && s[len(s)-1] != '-'
}

// isName reports whether a text can be the name of one of our objects.
func isName(s string) bool { return s != "" && len(s) <= maxName && strings.Trim(s, lower+"-.") == "" }

// isID reports whether a text can be the ID of a delivery or an event.
func isID(s string) bool {
	return s != "" && len(s) <= maxID && strings.Trim(s, tokenCharacters+"=") == ""
}

const lower = "abcdefghijklmnopqrstuvwxyz0123456789"
