package verify

import (
	"encoding/json"
	"errors"

	"notifier/internal/receiver/answer"
)

// The refusals of bodies that are not what their type sends.
const (
	refusedJSON  answer.Refusal = "body is not valid JSON"
	refusedField answer.Refusal = "a field of the payload is missing or has the wrong type"
)

// decodeJSON reads body, which is one JSON value and nothing after it, into a payload. The error is a Refusal: the decoder's own
// would quote the body.
func decodeJSON(body []byte, payload any) error {
	err := json.Unmarshal(body, payload)
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return refusedJSON
	}
	if err != nil {
		return refusedField
	}
	return nil
}

// anyPayload is what a body says of a type that only filters read: it has to be JSON.
func anyPayload(body []byte) (Content, error) {
	if !json.Valid(body) {
		return Content{}, refusedJSON
	}
	return Content{Document: body}, nil
}

// anyObject is an element of which only counts that it is an object. It has no size, so that a list of them costs no memory, however long
// its sender makes it.
type anyObject struct{}

func (*anyObject) UnmarshalJSON(data []byte) error {
	if data[0] != '{' {
		return refusedField
	}
	return nil
}
