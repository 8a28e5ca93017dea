package provider

import (
	"context"
	"errors"
	"io"
	"net/http"

	"notifier/internal/event"
)

// errReplaced means that another replica owns the delivery of a request.
var errReplaced = errors.New("another replica sends it")

// CheckOwned returns an error once this replica no longer owns the work of ctx. Types that do not speak HTTP call it right before they
// write a message.
func CheckOwned(ctx context.Context) error {
	if !event.Owned(ctx) {
		return errReplaced
	}
	return nil
}

// fenced returns req with a body whose Read fails once this replica no longer owns the work of req's context. The body is read right
// before it is written, after a connection was found or made. So a process that was stopped at any point before the body writes no
// whole request when it resumes.
//
// Without a fence the body stays as it is. net/http then knows that it is in memory, and writes header and body at once.
func fenced(req *http.Request) *http.Request {
	if req.Body == nil || req.Body == http.NoBody || !event.Fenced(req.Context()) {
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
