package email

import (
	"context"
	"errors"
	"fmt"
	"net/textproto"
	"strings"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

var (
	errNoTLS   = event.NewError(event.Retry, provider.LabelTLS, "the server offers no STARTTLS", nil)
	errNoLogin = event.NewError(event.Permanent, provider.LabelRejected,
		"the server offers none of the logins PLAIN, LOGIN and SCRAM-SHA-256", nil)
)

// greeting is the first step of a session, in which the server speaks first.
const greeting = "greeting"

// stepError is a failure at a step of the session. The names of the steps are a closed set.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.step }
func (e *stepError) Unwrap() error { return e.err }

// at returns err as a failure at step, nil if err is nil.
func at(step string, err error) error {
	if err == nil {
		return nil
	}
	return &stepError{step, err}
}

// statuses are the enhanced status codes that are shown, without their class (RFC 3463 and its registry).
var statuses = map[string]string{
	"1.1": "no such mailbox", "1.2": "no such domain", "1.3": "the address is not valid", "1.6": "the mailbox has moved",
	"1.7": "the sender's address is not valid", "1.8": "the sender's domain is not valid", "1.10": "the recipient's domain takes no mail",
	"2.1": "the mailbox is disabled", "2.2": "the mailbox is full", "2.3": "the message is too long",
	"3.1": "the server's disk is full", "3.2": "the server is not accepting messages", "3.4": "the message is too large",
	"4.1": "no answer from the host", "4.3": "the directory server is away", "4.4": "no route",
	"4.5": "the server is overloaded", "4.7": "it took too long",
	"5.1": "the command is not valid here", "5.2": "the command is not understood", "5.3": "too many recipients",
	"7.0": "refused by the server's policy", "7.1": "not permitted", "7.2": "not permitted to send to the list", "7.3": "no secure way",
	"7.8": "the login is wrong", "7.9": "the login is too weak", "7.26": "not authenticated by its domain", "7.28": "too many messages",
	"7.57": "the login is missing",
}

// classify returns the class, label and reason of a failed submission. It does not show the server's own words.
func classify(ctx context.Context, err error) *event.Error {
	step := "session"
	if at, ok := errors.AsType[*stepError](err); ok {
		step = at.step
	}
	if done := ctx.Err(); done != nil {
		if step == greeting {
			return provider.At(step, done)
		}
		return provider.Classify(done)
	}
	if errors.Is(err, provider.ErrTooMuch) {
		return event.NewError(event.Retry, provider.LabelReply, "the server's answer is too long", err)
	}
	if refusal, ok := errors.AsType[*textproto.Error](err); ok {
		return refused(refusal, step)
	}
	if known := provider.Classify(err); known.Label != provider.LabelOther {
		return known
	}
	if _, ok := errors.AsType[textproto.ProtocolError](err); ok || step != "session" {
		return event.NewError(event.Retry, provider.LabelReply, "the server does not speak SMTP", err)
	}
	return provider.Classify(err)
}

// refused classifies an answer by its first digit: 4 is retried and 5 is final (RFC 5321, section 4.2.1).
func refused(e *textproto.Error, step string) *event.Error {
	if e.Code < 400 || e.Code > 599 {
		return event.NewError(event.Retry, provider.LabelReply, "the server does not speak SMTP", e)
	}
	class := event.Retry
	if e.Code >= 500 {
		class = event.Permanent
	}
	reason := fmt.Sprintf("SMTP %d at the %s", e.Code, step)
	status, _, _ := strings.Cut(e.Msg, " ")
	if family, rest, ok := strings.Cut(status, "."); ok && family == fmt.Sprint(e.Code/100) && statuses[rest] != "" {
		reason += ": " + statuses[rest]
	}
	return event.NewError(class, provider.LabelRejected, reason, e)
}
