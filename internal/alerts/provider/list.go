package provider

import (
	"bytes"
	"encoding/json"
	"errors"
)

// maxListed is the number of elements that a list in an answer may have. Every page and the comments of the busiest pull request have
// fewer.
const maxListed = 5000

var errListed = errors.New("list has too many elements")

// List is a list in an answer, with at most maxListed elements. An element takes two bytes in the answer and a hundred in memory, so
// the bound on the answer's length does not bound the memory.
type List[T any] []T

// UnmarshalJSON decodes the elements one after the other and fails at the first one beyond the bound.
func (l *List[T]) UnmarshalJSON(raw []byte) error {
	*l = nil
	if bytes.Equal(raw, []byte("null")) {
		return nil
	}
	if len(raw) <= maxListed { // it has fewer elements, and a decoder takes a kilobyte: an answer may have any number of short lists
		return json.Unmarshal(raw, (*[]T)(l))
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if begin, err := d.Token(); err != nil || begin != json.Delim('[') {
		return errors.Join(err, errors.New("no list"))
	}
	for d.More() {
		if len(*l) == maxListed {
			return errListed
		}
		var element T
		if err := d.Decode(&element); err != nil {
			return err
		}
		*l = append(*l, element)
	}
	return nil
}
