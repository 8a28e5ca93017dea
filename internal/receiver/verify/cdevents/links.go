package cdevents

import (
	"encoding/json"
	"errors"
)

// MaxLinks is the greatest number of links in an event.
const MaxLinks = 64

var (
	errNoLink   = errors.New("a link is not an object")
	errLinkType = errors.New("a link has no known type")
)

// anyLink is a link that is only checked to be an object. It has no size, so that a list of any length costs no memory.
type anyLink struct{}

func (*anyLink) UnmarshalJSON(data []byte) error {
	if data[0] != '{' {
		return errNoLink
	}
	return nil
}

// links are an event's references to other events.
type links struct{ invalid bool }

// UnmarshalJSON reads each link by its type: members of another type may have any value. The last of several lists
// counts, so an invalid link is recorded in invalid and is no error.
func (l *links) UnmarshalJSON(data []byte) error {
	var all []json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	l.invalid = false
	for _, one := range all {
		valid, err := readLink(one)
		if err != nil {
			return err
		}
		l.invalid = l.invalid || !valid
	}
	return nil
}

func readLink(data []byte) (valid bool, err error) {
	var head struct {
		LinkType string `json:"linkType"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return false, err
	}
	switch head.LinkType {
	case "PATH", "END":
		var l struct {
			From eventReference `json:"from"`
			tags
		}
		err = json.Unmarshal(data, &l)
		return l.From.ContextID != "" && l.Tags != nil, err
	case "RELATION":
		var l struct {
			LinkKind string         `json:"linkKind"`
			Target   eventReference `json:"target"`
			tags
		}
		err = json.Unmarshal(data, &l)
		return l.LinkKind != "" && l.Target.ContextID != "" && l.Tags != nil, err
	default:
		return false, errLinkType
	}
}

// eventReference is the ID of another event.
type eventReference struct {
	ContextID string `json:"contextId"`
}

// tags are required, though they may be empty.
type tags struct {
	Tags map[string]any `json:"tags"`
}
