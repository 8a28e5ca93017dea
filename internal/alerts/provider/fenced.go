package provider

import (
	"context"
	"errors"
	"io"
	"net/http"

	"notifier/internal/event"
)

// errReplaced says that another replica owns the delivery that a request is for.
var errReplaced = errors.New("another replica sends it")

// CheckOwned returns an error once this replica does not own the work any more that ctx was given for. Types that do not speak HTTP ask
// it right before they write a message.
func CheckOwned(ctx context.Context) error {
	if !event.Owned(ctx) {
		return errReplaced
	}
	return nil
}

// fenced has the body of req end in an error once this replica does not own the work any more that req's context was given for. The
// body is read right before it is written, after a connection was found or made: a process that was stopped anywhere before that writes
// no whole request when it goes on.
func fenced(req *http.Request) *http.Request {
	if req.Body == nil || req.Body == http.NoBody {
		return req
	}
	owned := event.FenceOf(req.Context())
	req.Body = &fencedBody{ReadCloser: req.Body, owned: owned}
	if again := req.GetBody; again != nil {
		req.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil {
				return nil, err
			}
			return &fencedBody{ReadCloser: body, owned: owned}, nil
		}
	}
	return req
}

type fencedBody struct {
	io.ReadCloser
	owned func() bool
}

func (b *fencedBody) Read(p []byte) (int, error) {
	if !b.owned() {
		return 0, errReplaced
	}
	return b.ReadCloser.Read(p)
}
