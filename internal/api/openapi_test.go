package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"notifier/internal/event/view"
)

// document is the part of the description that the tests compare.
type document struct {
	Paths      map[string]map[string]json.RawMessage `json:"paths"`
	Components struct {
		Schemas    map[string]schema          `json:"schemas"`
		Parameters map[string]json.RawMessage `json:"parameters"`
		Responses  map[string]json.RawMessage `json:"responses"`
	} `json:"components"`
}

type schema struct {
	Ref                  string            `json:"$ref"`
	Type                 string            `json:"type"`
	Format               string            `json:"format"`
	Enum                 []string          `json:"enum"`
	Required             []string          `json:"required"`
	Properties           map[string]schema `json:"properties"`
	Items                *schema           `json:"items"`
	AdditionalProperties *schema           `json:"additionalProperties"`
}

func served(t *testing.T) (d document, text string) {
	t.Helper()
	text = newWorld(t).want(http.StatusOK, "", "GET", "/openapi.json", &d).Body.String()
	return d, text
}

// Fails when a route or method is added or removed and the description is not changed.
func TestTheDescriptionHasEveryRouteAndNoOther(t *testing.T) {
	d, _ := served(t)
	var described, handled []string
	for path, operations := range d.Paths {
		for method := range operations {
			if method != "parameters" {
				described = append(described, strings.ToUpper(method)+" "+path)
			}
		}
	}
	err := chi.Walk(newWorld(t).handler.routes, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		handled = append(handled, method+" "+route)
		return nil
	})
	must(t, err)
	slices.Sort(described)
	slices.Sort(handled)
	if diff := cmp.Diff(handled, described); diff != "" || len(handled) != 11 {
		t.Errorf("%d routes (-handled +described):\n%s", len(handled), diff)
	}
}

// Fails when a field of an answer or a request is added, renamed or removed, or has another type, and the description is not
// changed.
func TestTheDescriptionHasTheFieldsOfTheTypes(t *testing.T) {
	d, _ := served(t)
	types := map[string]reflect.Type{
		"Object": reflect.TypeFor[view.Object](), "Delivery": reflect.TypeFor[view.Delivery](), "Attempt": reflect.TypeFor[view.Attempt](),
		"DeliveryDetail": reflect.TypeFor[view.DeliveryDetail](), "Event": reflect.TypeFor[view.Event](), "Decision": reflect.TypeFor[view.Decision](),
		"Explanation": reflect.TypeFor[view.Explanation](), "Webhook": reflect.TypeFor[view.Webhook](), "Health": reflect.TypeFor[view.Health](),
		"Namespaces": reflect.TypeFor[view.Namespaces](), "DeliveryPage": reflect.TypeFor[view.Page[view.Delivery]](),
		"EventPage": reflect.TypeFor[view.Page[view.Event]](), "WebhookPage": reflect.TypeFor[view.Page[view.Webhook]](),
		"HealthList": reflect.TypeFor[healthOf](), "ReplayRequest": reflect.TypeFor[view.ReplayRequest](),
		"TestRequest":  reflect.TypeFor[view.TestRequest](),
		"ReplayResult": reflect.TypeFor[view.ReplayResult](), "TestResult": reflect.TypeFor[view.TestResult](),
	}
	for name, described := range d.Components.Schemas {
		of, ok := types[name]
		if !ok {
			if name != "State" && name != "Error" {
				t.Errorf("%s is no type", name)
			}
			continue
		}
		properties, required := fieldsOf(of)
		if diff := cmp.Diff(properties, shapes(described.Properties)); diff != "" {
			t.Errorf("%s (-type +described):\n%s", name, diff)
		}
		slices.Sort(described.Required)
		if name == "TestRequest" {
			required = nil // the path names it
		}
		if diff := cmp.Diff(required, described.Required); diff != "" {
			t.Errorf("required of %s (-type +described):\n%s", name, diff)
		}
		delete(types, name)
	}
	for name := range types {
		t.Errorf("%s is not described", name)
	}
	want := []string{string(view.StatePending), string(view.StateSent), string(view.StateDead)}
	if diff := cmp.Diff(want, d.Components.Schemas["State"].Enum); diff != "" {
		t.Errorf("State: %s", diff)
	}
}

// fieldsOf returns the JSON fields of a type with their shapes, and the names of the required fields.
func fieldsOf(t reflect.Type) (shape map[string]string, required []string) {
	shape = map[string]string{}
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "-" {
			continue
		}
		shape[name] = shapeOf(f.Type)
		if !strings.HasPrefix(options, "omit") {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	return shape, required
}

// shapeOf returns a type in the notation of the description.
func shapeOf(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer:
		return shapeOf(t.Elem())
	case t == reflect.TypeFor[time.Time]():
		return "date-time"
	case t == reflect.TypeFor[view.State]():
		return "State"
	case t.Kind() == reflect.Slice:
		return "array of " + shapeOf(t.Elem())
	case t.Kind() == reflect.Map:
		return "map of " + shapeOf(t.Elem())
	case t.Kind() == reflect.Struct:
		return t.Name()
	case t.Kind() == reflect.Bool:
		return "boolean"
	case t.Kind() == reflect.String:
		return "string"
	}
	return "integer"
}

func shapes(properties map[string]schema) map[string]string {
	all := map[string]string{}
	for name, s := range properties {
		all[name] = s.shape()
	}
	return all
}

func (s schema) shape() string {
	switch {
	case s.Ref != "":
		return s.Ref[strings.LastIndex(s.Ref, "/")+1:]
	case s.Type == "array":
		return "array of " + s.Items.shape()
	case s.AdditionalProperties != nil:
		return "map of " + s.AdditionalProperties.shape()
	case s.Format != "":
		return s.Format
	case slices.Equal(s.Enum, []string{"sent", "dead"}):
		return "State" // without pending, which cannot be requested
	}
	return s.Type
}

// Fails when the parameters of a list and of its description differ, or when a named part is not described.
func TestTheDescriptionHasTheParametersOfTheLists(t *testing.T) {
	d, text := served(t)
	for list, own := range filters {
		var get struct {
			Parameters []struct {
				Name string `json:"name"`
				Ref  string `json:"$ref"`
			} `json:"parameters"`
		}
		must(t, json.Unmarshal(d.Paths["/v1/namespaces/{namespace}/"+string(list)]["get"], &get))
		var named []string
		for _, p := range get.Parameters {
			named = append(named, p.Name+p.Ref[strings.LastIndex(p.Ref, "/")+1:])
		}
		if diff := cmp.Diff(slices.Concat(own, common), named); diff != "" {
			t.Errorf("%s (-taken +described):\n%s", list, diff)
		}
	}
	for _, ref := range regexp.MustCompile(`"#/components/(\w+)/(\w+)"`).FindAllStringSubmatch(text, -1) {
		var ok bool
		switch ref[1] {
		case "schemas":
			_, ok = d.Components.Schemas[ref[2]]
		case "parameters":
			_, ok = d.Components.Parameters[ref[2]]
		case "responses":
			_, ok = d.Components.Responses[ref[2]]
		}
		if !ok {
			t.Errorf("there is no %s", ref[0])
		}
	}
}
