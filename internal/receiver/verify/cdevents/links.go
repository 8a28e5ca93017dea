package cdevents

import (
	"encoding/json"
	"errors"
)

// MaxLinks is how many links an event may have.
const MaxLinks = 64

var (
	errNoLink   = errors.New("a link is not an object")
	errLinkType = errors.New("a link has no known type")
)

// anyLink is a link of which only counts that it is an object. It has no size, so that a list of them costs no memory, however long its
// sender makes it.
type anyLink struct{}

func (*anyLink) UnmarshalJSON(data []byte) error {
	if data[0] != '{' {
		return errNoLink
	}
	return nil
}

// links are what an event says of other events.
type links struct{ invalid bool }

// UnmarshalJSON reads each link as its type says: members that another type has may be anything. Of members that are
// given twice the later one counts, so that what is merely invalid is no error yet.
func (l *links) UnmarshalJSON(data []byte) error {
	var all []json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	l.invalid = false
	for _, one := range all {
		holds, err := readLink(one)
		if err != nil {
			return err
		}
		l.invalid = l.invalid || !holds
	}
	return nil
}

func readLink(data []byte) (holds bool, err error) {
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
