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
	return refusalOf(json.Unmarshal(body, payload))
}

// refusalOf is the Refusal that the decoder's error leads to, nil for none.
func refusalOf(err error) error {
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
