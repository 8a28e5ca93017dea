package cdevents

import (
	"errors"
	"regexp"
	"strings"
)

// Type is the type of an event.
type Type struct {
	// Subject is, for a custom event, the tool and the subject with a hyphen between them.
	Subject, Predicate, Version string
	// Custom says that the event is not of the specification's vocabulary.
	Custom bool
}

var (
	typeForm       = regexp.MustCompile(`^dev\.cdevents\.([a-z]+)\.([a-z]+)\.(.*)$`)
	customTypeForm = regexp.MustCompile(`^dev\.cdeventsx\.([a-z]+-[a-z]+)\.([a-z]+)\.(.*)$`)
	customVersion  = regexp.MustCompile(`^[0-9]\.[0-9]\.[0-9]$`)
	customSubject  = regexp.MustCompile(`^[a-zA-Z0-9]+-[a-zA-Z]+$`)
)

var errType = errors.New("not a type of event")

// UnmarshalJSON reads a type literally: a type with an escape in it is not recognised.
func (t *Type) UnmarshalJSON(data []byte) error {
	if s := string(data); s == "null" || s == `""` {
		return nil
	}
	name := strings.Trim(string(data), `"`)
	parts, custom := typeForm.FindStringSubmatch(name), false
	if parts == nil {
		parts, custom = customTypeForm.FindStringSubmatch(name), true
	}
	if parts == nil {
		return errType
	}
	*t = Type{Subject: parts[1], Predicate: parts[2], Version: parts[3], Custom: custom}
	return nil
}

// Unversioned returns the type without its version.
func (t Type) Unversioned() string {
	root := "dev.cdevents."
	if t.Custom {
		root = "dev.cdeventsx."
	}
	return root + t.Subject + "." + t.Predicate
}

// String returns the type as an event spells it.
func (t Type) String() string { return t.Unversioned() + "." + t.Version }
