package receiver

import (
	"encoding/json"
	"errors"
)

// The refusals of bodies that are not what their type sends.
const (
	refusedJSON  Refusal = "body is not valid JSON"
	refusedField Refusal = "a field of the payload is missing or has the wrong type"
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

// anyString and anyObject are elements whose type counts and whose value does not. They have no size, so that a list of them
// costs no memory, however long its sender makes it.
type (
	anyString struct{}
	anyObject struct{}
)

func (*anyString) UnmarshalJSON(data []byte) error { return startsWith(data, '"') }
func (*anyObject) UnmarshalJSON(data []byte) error { return startsWith(data, '{') }

func startsWith(data []byte, first byte) error {
	if data[0] != first {
		return refusedField
	}
	return nil
}
