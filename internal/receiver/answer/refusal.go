package answer

import "errors"

// Refusal is the reason why a request was not found authentic. It is sent to the caller, so it contains nothing of the request and nothing
// secret.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// unclassified is the reason where no other may be disclosed.
const unclassified Refusal = "not authentic"

// ReasonOf returns the Refusal in err, else unclassified. The sender may see it.
func ReasonOf(err error) Refusal {
	if known, ok := errors.AsType[Refusal](err); ok {
		return known
	}
	return unclassified
}
