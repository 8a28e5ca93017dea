package view

import (
	"errors"
	"strings"
	"time"
)

// DefaultLimit and MaxLimit bound the items of one page.
const (
	DefaultLimit = 50
	MaxLimit     = 500
)

var (
	// ErrNotFound says that the namespace has no item with the name or ID, or has it no longer.
	ErrNotFound = errors.New("not found")
	// ErrBadCursor says that a cursor is not from a page of the same list.
	ErrBadCursor = errors.New("cursor is not of this list")
	// ErrNoWorker says that no replica is the worker at the moment, so a request to the worker cannot be served.
	ErrNoWorker = errors.New("no replica is at work")
)

// Query selects items of one list of one namespace. An empty field selects all. A field that the list's items do not have is
// ignored.
type Query struct {
	State State
	// Provider, Alert and Receiver are names.
	Provider, Alert, Receiver string
	// Object is "Kind/name". Case is ignored.
	Object string
	// Event is an event's ID.
	Event string
	// Since and Until bound the time of an item: Since inclusively, Until exclusively.
	Since, Until time.Time
	// Limit bounds the items of the page. 0 means DefaultLimit.
	Limit int
	// Cursor is the Next of the page before, empty for the first page.
	Cursor string
}

// Item is an item of a list: a Delivery, an Event or a Webhook.
type Item interface {
	// At returns the time by which lists are ordered and bounded.
	At() time.Time
	// SelectedBy reports whether a query selects the item, by all its fields except its time and, of a delivery, its event.
	SelectedBy(q *Query) bool
}

// At implements Item.
func (d Delivery) At() time.Time { return d.Time }

// SelectedBy implements Item.
func (d Delivery) SelectedBy(q *Query) bool {
	return (q.State == "" || q.State == d.State) && is(q.Provider, d.Provider) && is(q.Alert, d.Alert) && isObject(q.Object, d.Object)
}

// At implements Item: an event is listed by when it was accepted.
func (e Event) At() time.Time { return e.Accepted }

// SelectedBy implements Item.
func (e Event) SelectedBy(q *Query) bool { return is(q.Event, e.ID) && isObject(q.Object, e.Object) }

// At implements Item.
func (w Webhook) At() time.Time { return w.Time }

// SelectedBy implements Item.
func (w Webhook) SelectedBy(q *Query) bool { return is(q.Receiver, w.Receiver) }

func is(wanted, name string) bool { return wanted == "" || wanted == name }

func isObject(wanted string, o Object) bool {
	return wanted == "" || strings.EqualFold(wanted, o.String())
}

// Page is a part of a list, newest first.
type Page[T any] struct {
	Items []T `json:"items"`
	// Next is the cursor of the next page, empty on the last page. A page with a Next may have fewer items than its limit, or none:
	// reading is bounded, and a query may select few of the items read.
	Next string `json:"next,omitempty"`
}
