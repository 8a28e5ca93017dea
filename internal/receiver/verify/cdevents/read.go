package cdevents

import (
	"encoding/json"
	"errors"
	"reflect"
	"time"
)

// ErrInvalid says that a JSON document is no valid CDEvent of specification 0.4 or 0.5.
var ErrInvalid = errors.New("not a valid CDEvent")

// Context identifies an event: its ID, source and type.
type Context struct {
	ID     string `json:"id"`
	Source string `json:"source"`
	Type   Type   `json:"type"`
}

// header is the part of a context that is read first. Its time is only checked: it must have the format of RFC 3339.
type header struct {
	Context
	Timestamp   time.Time `json:"timestamp"`
	Version     string    `json:"version"`
	SpecVersion string    `json:"specversion"`
}

// Read returns the context of a valid event. Its error is ErrInvalid, or an error of encoding/json if data is not JSON
// or a part of the context has a wrong type. That error quotes data, and so must not be shown.
func Read(data []byte) (Context, error) {
	var head struct {
		Context struct {
			header
			Links []anyLink `json:"links"`
		} `json:"context"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return Context{}, err
	}
	if len(head.Context.Links) > MaxLinks || !isValid(data, head.Context.header) {
		return Context{}, ErrInvalid
	}
	return head.Context.Context, nil
}

// isValid reports whether an event with this header is valid.
func isValid(data []byte, h header) bool {
	spec := h.specification()
	if h.ID == "" || h.Source == "" || !isURIReference(h.Source) || spec == spec04 && h.Version == "" {
		return false
	}
	if h.Type.Custom {
		return isValidCustom(data, h.Type, spec)
	}
	kind := find(h.Type, spec)
	if kind == nil {
		return false
	}
	content := reflect.New(kind.content.goType())
	subject, ok := readBody(data, spec, content.Interface())
	return ok && (spec != spec04 || subject == kind.subject()) && kind.content.accepts(content.Elem())
}

// isValidCustom reports whether an event of a type that only its sender knows is valid: its content is any object.
func isValidCustom(data []byte, t Type, spec int) bool {
	if !customVersion.MatchString(t.Version) {
		return false
	}
	var content any
	subject, ok := readBody(data, spec, &content)
	_, isObject := content.(map[string]any)
	return ok && isObject && (spec != spec04 || customSubject.MatchString(subject))
}

// specification returns the index of the specification that an event names. Since 0.5 a member of another name says it,
// and its value does not count.
func (h header) specification() int {
	if h.SpecVersion != "" {
		return spec05
	}
	return spec04
}

// readBody reads the parts outside the header that are alike in all events, and reads the content into content. It
// returns the type of the subject, which events have up to 0.4, and reports whether those parts are valid. It applies no
// schema of the sender.
func readBody(data []byte, spec int, content any) (subject string, ok bool) {
	var body struct {
		Context struct {
			ChainID   string `json:"chainId"`
			Links     links  `json:"links"`
			SchemaURI string `json:"schemaUri"`
		} `json:"context"`
		Subject struct {
			ID      string `json:"id"`
			Source  string `json:"source"`
			Type    member `json:"type"`
			Content member `json:"content"`
		} `json:"subject"`
		CustomData            any    `json:"customData"`
		CustomDataContentType string `json:"customDataContentType"`
	}
	if body.Subject.Content = (member{content}); spec == spec04 {
		body.Subject.Type = member{&subject}
	}
	if json.Unmarshal(data, &body) != nil {
		return "", false
	}
	switch body.CustomData.(type) {
	case nil, string, map[string]any:
	default:
		return "", false
	}
	around, about := body.Context, body.Subject
	return subject, !around.Links.invalid && around.SchemaURI == "" && about.ID != "" && isURIReference(about.Source)
}

// member is a value whose type depends on the event's type. Without a place to be read into it may be anything.
type member struct{ into any }

func (m *member) UnmarshalJSON(data []byte) error {
	if m.into == nil {
		return nil
	}
	return json.Unmarshal(data, m.into)
}
