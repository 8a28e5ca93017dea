package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"notifier/internal/event/view"
)

// Replay publishes ended deliveries of a namespace again. The error is a refusal or that of the worker.
func (s *Service) Replay(ctx context.Context, u *User, namespace string, r view.ReplayRequest) (view.ReplayResult, error) {
	return s.replay(ctx, u, namespace, func() (view.ReplayRequest, error) { return r, nil })
}

// replay is Replay of a request that is read once the user may send one: to decode a body costs more than all else of a refused request.
func (s *Service) replay(
	ctx context.Context, u *User, namespace string, read func() (view.ReplayRequest, error),
) (view.ReplayResult, error) {
	if err := s.mayAsk(ctx, u, namespace, ReplayDeliveries); err != nil {
		return view.ReplayResult{}, err
	}
	r, err := read()
	if err != nil {
		return view.ReplayResult{}, err
	}
	if err := validReplay(r); err != nil {
		return view.ReplayResult{}, err
	}
	if err := s.checkAgain(ctx, u, namespace, ReplayDeliveries); err != nil { // the body may have taken ten seconds
		return view.ReplayResult{}, err
	}
	made, err := s.options.Authority.Made(ctx, namespace)
	if err != nil {
		return view.ReplayResult{}, err
	}
	r.Since, r.Until = later(within(r.Since), made), within(r.Until)
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	result, err := s.options.Worker.AskReplay(ctx, namespace, r)
	if err != nil {
		return view.ReplayResult{}, fmt.Errorf("replay: %w", err)
	}
	s.options.Log.InfoContext(ctx, "deliveries were replayed", "user", u, "namespace", namespace, "count", result.Replayed)
	return result, nil
}

// within returns a bound of a request, within the range of kept. Zero, for no bound, stays zero.
func within(at time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return kept(at)
}

// Test sends one test message through a Provider of a namespace. A request without a value gets a unique one.
func (s *Service) Test(ctx context.Context, u *User, namespace string, r view.TestRequest) (view.TestResult, error) {
	return s.test(ctx, u, namespace, r.Provider, func() (view.TestRequest, error) { return r, nil })
}

// test is Test of a request for a Provider that is read once the user may send one.
func (s *Service) test(
	ctx context.Context, u *User, namespace, provider string, read func() (view.TestRequest, error),
) (view.TestResult, error) {
	if !isName(provider) {
		return view.TestResult{}, invalid("name the Provider")
	}
	if err := s.mayAsk(ctx, u, namespace, TestRight(provider)); err != nil {
		return view.TestResult{}, err
	}
	r, err := read()
	switch {
	case err != nil:
		return view.TestResult{}, err
	case r.Provider != provider:
		return view.TestResult{}, invalid("the body names another Provider than the path")
	case r.Value != "" && !isID(r.Value):
		return view.TestResult{}, invalid("value is at most 128 letters, digits and -._~+/=")
	case r.Value == "":
		r.Value = rand.Text()
	}
	if err := s.checkAgain(ctx, u, namespace, TestRight(provider)); err != nil { // as in replay
		return view.TestResult{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	result, err := s.options.Worker.AskTest(ctx, namespace, r)
	switch {
	case errors.Is(err, view.ErrNotFound):
		return view.TestResult{}, &Error{Status: http.StatusNotFound, Text: "there is no Provider " + provider + " in the namespace: check its name"}
	case err != nil:
		return view.TestResult{}, fmt.Errorf("test: %w", err)
	}
	s.options.Log.InfoContext(ctx, "a test message was asked for", "user", u, "namespace", namespace, "provider", r.Provider)
	return result, nil
}

// mayAsk returns nil if a user may send a request to the worker now, and the refusal otherwise.
func (s *Service) mayAsk(ctx context.Context, u *User, namespace string, r Right) error {
	if err := s.authorize(ctx, u, namespace, r); err != nil {
		return err
	}
	if !s.limits.asked.Allow(u.Tenant()) {
		return ErrBusy
	}
	return nil
}

// validReplay returns the first fault of a request, or nil. A request that selects nothing would mean everything, which is never
// intended.
func validReplay(r view.ReplayRequest) error {
	switch {
	case len(r.IDs) > view.MaxReplay:
		return invalid("at most " + strconv.Itoa(view.MaxReplay) + " ids at a time")
	case r.State != "" && r.State != view.StateDead && r.State != view.StateSent:
		return invalid("state is dead or sent")
	case len(r.IDs) == 0 && r.Provider == "" && r.Alert == "" && r.State == "" && r.Since.IsZero() && r.Until.IsZero():
		return invalid("say which deliveries: by ids, provider, alert, state, since or until")
	case r.Provider != "" && !isName(r.Provider) || r.Alert != "" && !isName(r.Alert):
		return invalid("provider and alert are names of objects")
	}
	for _, id := range r.IDs {
		if !isID(id) {
			return invalid("an id is not that of a delivery")
		}
	}
	return nil
}
