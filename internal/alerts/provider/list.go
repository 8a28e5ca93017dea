package provider

import (
	"bytes"
	"encoding/json"
	"errors"
)

// maxListed is how many elements a list in an answer may have: more than any page has, and the comments of the busiest pull request.
const maxListed = 5000

var errListed = errors.New("list has too many elements")

// List is a list in an answer. An element takes two bytes there and a hundred in memory, so that what bounds an answer's length does not
// bound what is made of it.
type List[T any] []T

// UnmarshalJSON decodes the elements one after the other, and none beyond the bound.
func (l *List[T]) UnmarshalJSON(raw []byte) error {
	*l = nil
	if bytes.Equal(raw, []byte("null")) {
		return nil
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
