package cdevents

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/cdevents/sdk-go/pkg/api"
	v04 "github.com/cdevents/sdk-go/pkg/api/v04"
	v05 "github.com/cdevents/sdk-go/pkg/api/v05"
)

// The verdicts on a document that is no valid event.
const (
	unreadable = "not readable"
	invalid    = "not valid"
	panics     = "panics"
)

// verdict returns Read's result for an event: its context, if it is valid.
func verdict(data []byte) string {
	c, err := Read(data)
	switch {
	case errors.Is(err, ErrInvalid):
		return invalid
	case err != nil:
		return unreadable
	default:
		return fmt.Sprintf("valid: %q %q %s %s", c.ID, c.Source, c.Type, c.Type.Unversioned())
	}
}

// catalogues are the types of events that the SDK knows in each specification.
var catalogues = [specs]map[string]api.CDEventV04{spec04: v04.CDEventsByUnversionedTypes, spec05: v05.CDEventsByUnversionedTypes}

// sdkVerdict returns the SDK's result for an event. The SDK dereferences links that are null, and its own reader decodes
// all events of one type into one shared value. So sdkVerdict checks links first, and gives each event a new value.
func sdkVerdict(data []byte) (verdict string) {
	defer func() {
		if recover() != nil {
			verdict = panics
		}
	}()
	var head struct {
		Context struct {
			api.ContextForUnmarshalling
			Links []anyLink `json:"links"`
		} `json:"context"`
	}
	if json.Unmarshal(data, &head) != nil {
		return unreadable
	}
	catalogue := catalogues[spec04]
	if head.Context.UsesSpecVersion() {
		catalogue = catalogues[spec05]
	}
	key := head.Context.Type.UnversionedString()
	if head.Context.Type.Custom != "" {
		key = api.CustomEventMapKey
	}
	known, ok := catalogue[key]
	if !ok || len(head.Context.Links) > MaxLinks {
		return invalid
	}
	empty := reflect.New(reflect.TypeOf(known).Elem()).Interface().(api.CDEventV04)
	e, err := api.NewFromJsonBytesContext(data, map[string]api.CDEventV04{key: empty})
	if err != nil || api.Validate(e) != nil {
		return invalid
	}
	c := head.Context
	return fmt.Sprintf("valid: %q %q %s %s", c.Id, c.Source, c.Type, c.Type.UnversionedString())
}

var errUntyped = errors.New("a link has no type")

type typedLink struct{}

func (typedLink) UnmarshalJSON(data []byte) error {
	var link struct {
		LinkType string `json:"linkType"`
	}
	if json.Unmarshal(data, &link) == nil && link.LinkType == "" {
		return errUntyped
	}
	return nil
}

// hasUntypedLink reports whether a list of links has a link without type. A list that a second list replaces counts too.
func hasUntypedLink(event string) bool {
	var head struct {
		Context struct {
			Links []typedLink `json:"links"`
		} `json:"context"`
	}
	return errors.Is(json.Unmarshal([]byte(event), &head), errUntyped)
}

// comparison counts the events that Read and the SDK have judged.
type comparison struct{ valid, invalid, unreadable, stricter int }

// judge compares Read with the SDK for an event, and reports whether both accept it. There is one permitted difference:
// Read must refuse an event at which the SDK panics, or whose link has no type, which the SDK takes from the link
// before.
func (c *comparison) judge(t testing.TB, name, event string) (valid bool) {
	t.Helper()
	got, want := verdict([]byte(event)), sdkVerdict([]byte(event))
	switch {
	case got == invalid && want != invalid && (want == panics || hasUntypedLink(event)):
		c.stricter++
	case got != want:
		t.Errorf("%s: %s, the SDK: %s\n%s", name, got, want, event)
	case got == invalid:
		c.invalid++
	case got == unreadable:
		c.unreadable++
	default:
		c.valid++
		valid = true
	}
	return valid
}

func (c *comparison) report(t testing.TB) {
	t.Helper()
	t.Logf("%d events compared: %d valid, %d not valid, %d not readable, %d not valid at which the SDK errs",
		c.valid+c.invalid+c.unreadable+c.stricter, c.valid, c.invalid, c.unreadable, c.stricter)
}

// FuzzRead fails when an event is judged differently than by the SDK.
func FuzzRead(f *testing.F) {
	for spec := range catalogues {
		for _, s := range schemasOf(f, spec) {
			f.Add([]byte(s.smallest().String()))
			f.Add([]byte(s.fullest().String()))
		}
	}
	for _, links := range linkLists {
		f.Add([]byte(linked(`"links":` + links + `,`)))
	}
	var c comparison
	f.Fuzz(func(t *testing.T, event []byte) { c.judge(t, "fuzzed", string(event)) })
}
