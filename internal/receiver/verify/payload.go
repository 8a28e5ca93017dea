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

// firstJSON returns the JSON value with which body begins, without a copy. As in Flux, what follows it does not count: a body that cannot be
// signed may end with a line or a mark of its own. The error is a Refusal.
func firstJSON(body []byte) ([]byte, error) {
	if json.Valid(body) {
		return body, nil
	}
	// The offset is that of the first byte that belongs to no value, counted from 1.
	if syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(body, new(struct{}))); ok && syntax.Offset > 0 {
		if value := body[:syntax.Offset-1]; json.Valid(value) {
			return value, nil
		}
	}
	return nil, refusedJSON
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
