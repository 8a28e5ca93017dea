package provider

// Size has the lengths, in units of a type, to which an event's message and each part of a fact are cut.
type Size = struct{ Message, Fact int }

// Shrink returns what build makes of the first of the sizes at which its length is at most limit, else of the last size. The sizes of a
// type descend to one at which every message fits.
func Shrink[S, T any](sizes []S, limit int, length func(T) int, build func(S) T) (made T) {
	for _, size := range sizes {
		if made = build(size); length(made) <= limit {
			break
		}
	}
	return made
}

// ShrinkJSON is Shrink for a message that is sent as JSON, of at most maxBytes. Its error is an *event.Error.
func ShrinkJSON[S, T any](sizes []S, maxBytes int, build func(S) T) (body []byte, err error) {
	return ShrinkJSONBy(sizes, maxBytes, func(body []byte) int { return len(body) }, build)
}

// ShrinkJSONBy is ShrinkJSON for a destination that counts the length of a body in its own way.
func ShrinkJSONBy[S, T any](sizes []S, limit int, length func(body []byte) int, build func(S) T) (body []byte, err error) {
	body = Shrink(sizes, limit, length, func(size S) []byte {
		body, err = encodeJSON(build(size))
		return body
	})
	return body, err
}
