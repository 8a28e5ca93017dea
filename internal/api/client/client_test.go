package client

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"notifier/internal/alloctest"
	"notifier/internal/event/view"
)

// cut is a transport whose answer breaks, or falls silent, after its first bytes.
type cut struct{ silent bool }

func (c cut) RoundTrip(r *http.Request) (*http.Response, error) {
	body, answer := io.Pipe()
	go func() {
		_, _ = io.WriteString(answer, `{"items":[`)
		if c.silent {
			<-r.Context().Done()
		}
		_ = answer.CloseWithError(io.ErrUnexpectedEOF)
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
}

// stuck is a transport whose refusal falls silent after its first bytes, as a proxy's does that lost its server.
type stuck struct{}

func (stuck) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := cut{silent: true}.RoundTrip(r)
	answer.StatusCode = http.StatusBadGateway
	return answer, err
}

// Fails when a refusal that does not go on is waited for.
func TestARefusalThatFallsSilentEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New("http://api", stuck{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for name, ask := range map[string]func() error{
			"a request": func() error {
				_, err := c.Namespaces(ctx)
				return err
			},
			"a watch": func() error {
				return Follow(ctx, c, Watch{Namespace: "team-a", List: view.Deliveries}, func(view.Delivery) error { return nil })
			},
		} {
			began := time.Now()
			err := ask()
			if e, ok := errors.AsType[*Error](err); !ok || e.Status != http.StatusBadGateway || time.Since(began) > maxSilence {
				t.Errorf("%s: error %v after %s", name, err, time.Since(began))
			}
		}
	})
}

// Fails when an answer that the network cut is told as one of another server, or when an answer that does not go on is waited for.
func TestAnAnswerThatIsCutIsToldAsThat(t *testing.T) {
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c, err := New("http://api", cut{silent})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			began := time.Now()
			if _, err := c.Namespaces(ctx); err == nil || !strings.Contains(err.Error(), "read the answer") || time.Since(began) > maxSilence {
				t.Errorf("silent %t: error %v after %s", silent, err, time.Since(began))
			}
		})
	}
}

// status is a transport that answers every request as a proxy or another server does.
type status int

func (s status) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(s), Body: io.NopCloser(strings.NewReader("<html>"))}, nil
}

// Fails when the answer of another server, of a proxy that asks for a login, or to a token of many kilobytes, does not say what to do.
func TestAnAnswerOfAnotherServerSaysWhatToDo(t *testing.T) {
	for answered, want := range map[status]string{302: "check the address of the server", 404: "check the address of the server", 502: "try again", 431: "your token is too long"} {
		c, err := New("http://api", answered)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Namespaces(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: error %v, want %q", answered, err, want)
		}
	}
}

// answering is a transport that answers every request with a text.
type answering string

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(a)))}, nil
}

// Fails when all items of an answer are decoded, however many it has: each of two bytes takes hundreds in memory.
func TestAnAnswerOfMillionsOfItemsIsRefused(t *testing.T) {
	for name, item := range map[string]string{"empty items": `{},`, "numbers": `0,`, "lists": `[],`, "after a text": `"\\","\"",`} {
		text := `{"items":[` + strings.Repeat(item, maxValues) + `{}]}`
		c, err := New("http://api", answering(text))
		if err != nil {
			t.Fatal(err)
		}
		var page view.Page[view.Delivery]
		made := alloctest.Bytes(func() { page, err = Page[view.Delivery](t.Context(), c, "team-a", view.Deliveries, view.Query{}) })
		if err == nil || len(page.Items) > 0 || made > uint64(8*len(text)) {
			t.Errorf("%s: %d items, error %v, %d MiB are made of %d", name, len(page.Items), err, made>>20, len(text)>>20)
		}
	}
}

// Fails when what is within a text counts.
func TestAnAnswerWithALongTextIsRead(t *testing.T) {
	c, err := New("http://api", answering(`{"items":["`+strings.Repeat(`{,[\"\\`, maxValues)+`"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Namespaces(t.Context()); err != nil || len(got.Items) != 1 {
		t.Errorf("%d items, error %v", len(got.Items), err)
	}
}
