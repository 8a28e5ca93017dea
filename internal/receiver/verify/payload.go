package verify

import (
	"encoding/json"
	"errors"

	"notifier/internal/receiver/answer"
)

// The refusals of bodies that do not have the form of their type.
const (
	refusedJSON  answer.Refusal = "body is not valid JSON"
	refusedField answer.Refusal = "a field of the payload is missing or has the wrong type"
)

// decodeJSON decodes body, which must be exactly one JSON value, into payload. The error is a Refusal: the decoder's own
// error would quote the body.
func decodeJSON(body []byte, payload any) error {
	return refusalOf(json.Unmarshal(body, payload))
}

// refusalOf returns the Refusal for an error of the decoder, nil for nil.
func refusalOf(err error) error {
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return refusedJSON
	}
	if err != nil {
		return refusedField
	}
	return nil
}
