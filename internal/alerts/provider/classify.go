package provider

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"notifier/internal/event"
)

// Classify returns the class, label and reason of a failed request. The reasons are fixed texts, since the causes quote addresses and
// answers.
func Classify(err error) *event.Error {
	if proxied(err) {
		return proxyError(err)
	}
	return classify(err)
}

// At returns the classified failure of a step of a send, whose reason begins with the step.
func At(step string, err error) *event.Error {
	e := *Classify(err)
	e.Reason = step + ": " + e.Reason
	return &e
}

func classify(err error) *event.Error {
	if e, ok := errors.AsType[*event.Error](err); ok {
		return e
	}
	if errors.Is(err, ErrDenied) {
		return event.NewError(event.Permanent, LabelDenied, ErrDenied.Error(), err)
	}
	label, reason := describe(err)
	return event.NewError(event.Retry, label, reason, err)
}

// proxied reports whether the error arose on the way to a proxy or at it, as far as net/http reports that.
func proxied(err error) bool {
	for {
		op, ok := errors.AsType[*net.OpError](err)
		if !ok {
			return false
		}
		if op.Op == "proxyconnect" || op.Op == "socks connect" || op.Op == "socks" {
			return true
		}
		err = op.Err
	}
}

// proxyError classifies an error at a proxy. A refused address stays permanent; every other error is retried.
func proxyError(err error) *event.Error {
	inner := classify(err)
	switch inner.Label {
	case LabelDenied:
		return event.NewError(event.Permanent, LabelDenied, "proxy address is not allowed", err)
	case LabelTimeout, LabelCanceled, LabelProxy:
		return inner
	}
	if strings.Contains(err.Error(), "unknown error ") { // the libraries' words before a SOCKS proxy's answer to the command
		return event.NewError(event.Retry, LabelProxy, "proxy does not reach the destination", err)
	}
	return event.NewError(event.Retry, LabelProxy, "proxy: "+inner.Reason, err)
}

// describe returns the label and the reason of a request that got no answer. The order matters: a TLS or DNS failure also looks like a
// network error, and an ended context may surface as any of them.
func describe(err error) (label, reason string) {
	if errors.Is(err, context.DeadlineExceeded) {
		return LabelTimeout, "no answer in time"
	}
	if errors.Is(err, context.Canceled) {
		return LabelCanceled, "canceled"
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return LabelDNS, describeDNS(dns)
	}
	if reason := describeTLS(err); reason != "" {
		return LabelTLS, reason
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return LabelTimeout, "no answer in time"
	}
	for _, known := range []struct {
		cause  error
		reason string
	}{
		{syscall.ECONNREFUSED, "connection refused"},
		{syscall.ECONNRESET, "connection reset"},
		{syscall.EPIPE, "connection reset"},
		{syscall.EHOSTUNREACH, "host is unreachable"},
		{syscall.ENETUNREACH, "network is unreachable"},
		{io.EOF, "connection closed without an answer"},
		{io.ErrUnexpectedEOF, "connection closed within the answer"},
	} {
		if errors.Is(err, known.cause) {
			return LabelConnect, known.reason
		}
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return LabelConnect, "connection failed"
	}
	return LabelOther, "request failed"
}

func describeDNS(err *net.DNSError) string {
	switch {
	case err.IsNotFound:
		return "host name not found"
	case err.IsTimeout:
		return "host name lookup timed out"
	default:
		return "host name lookup failed"
	}
}

// describeTLS returns the reason of a TLS failure, or an empty string for any other error.
func describeTLS(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "certificate is signed by an unknown authority"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "certificate is not valid for the host"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if invalid.Reason == x509.Expired {
			return "certificate has expired or is not yet valid"
		}
		return "certificate is not valid"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "certificate is not valid"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, http.ErrSchemeMismatch) {
		return "host does not speak TLS"
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return "TLS handshake refused"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		// crypto/tls reports an alert of the other side so, such as a refusal of our certificate.
		return "TLS handshake refused"
	}
	return ""
}
