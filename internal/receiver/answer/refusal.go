package answer

import "errors"

// Refusal is the reason why a request was not found authentic. It is sent to the caller, so it holds nothing of the request
// and nothing secret.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Unclassified is told where nothing else may be.
const Unclassified Refusal = "not authentic"

// ReasonOf is the Refusal in err, which may be told to the sender.
func ReasonOf(err error) Refusal {
	if known, ok := errors.AsType[Refusal](err); ok {
		return known
	}
	return Unclassified
}
