package verify

import (
	"net/url"
	"strings"
	"testing"
)

// Fails when a filter reads a body that is not declared as JSON, when a type built on JSON does not count, or when
// GitHub's form is read as {}, as in Flux.
func TestFiltersReadTheJSONInTheBody(t *testing.T) {
	const form = "a=%7B%7D&payload=%7B%22ref%22%3A%22a%2Bb+c%22%7D&payload=2"
	for name, tc := range map[string]struct {
		kind, contentType, body string
		want                    string
	}{
		"JSON":                           {"generic", "application/json", `{"a":1}`, `{"a":1}`},
		"JSON in capitals":               {"generic", "Application/JSON", `{"a":1}`, `{"a":1}`},
		"JSON with a parameter":          {"generic", "application/json; charset=utf-8", `{"a":1}`, `{"a":1}`},
		"JSON with a broken parameter":   {"generic", "application/json; charset", `{"a":1}`, `{"a":1}`},
		"CloudEvents":                    {"generic", "application/cloudevents+json", `{"a":1}`, `{"a":1}`},
		"a vendor's JSON":                {"generic", "text/vnd.x+json", `{"a":1}`, `{"a":1}`},
		"JSON that is none":              {"generic", "application/json", `{`, `{`},
		"an empty body":                  {"generic", "application/json", ``, ``},
		"no type":                        {"generic", "", `{"a":1}`, "none"},
		"text":                           {"generic", "text/plain", `{"a":1}`, "none"},
		"a list of types":                {"generic", "text/plain, application/json", `{"a":1}`, "none"},
		"a name that ends alike":         {"generic", "application/xjson", `{"a":1}`, "none"},
		"a suffix without a type":        {"generic", "x+json", `{"a":1}`, "none"},
		"a form, for a type of no form":  {"generic", formType, form, "none"},
		"GitHub's JSON":                  {"github", "application/json", `{"a":1}`, `{"a":1}`},
		"GitHub's form":                  {"github", formType, form, `{"ref":"a+b c"}`},
		"GitHub's form, named at length": {"github", formType + "; charset=utf-8", form, `{"ref":"a+b c"}`},
		"a form without the field":       {"github", formType, "payloads=1&&=&x", "none"},
		"a form of many fields":          {"github", formType, strings.Repeat("a=1&", maxFields-1) + "payload=1", "1"},
		"a form of too many fields":      {"github", formType, strings.Repeat("%61&", 1<<18) + "payload=1", "none"},
		"a form with a broken field":     {"github", formType, "payload=%zz&payload=1", "none"},
		"Bitbucket's form":               {"bitbucket", formType, form, `{"ref":"a+b c"}`},
		"Gitea's JSON":                   {"gitea", "application/json", `{"a":1}`, `{"a":1}`},
		"Nexus's JSON":                   {"nexus", "application/json; charset=UTF-8", `{"a":1}`, `{"a":1}`},
		"Nexus's JSON of no type":        {"nexus", "", `{"a":1}`, `{"a":1}`},
		"Standard Webhooks' JSON":        {"standard-webhooks", "application/json", `{"a":1}`, `{"a":1}`},
	} {
		c, err := verifierOf(t, tc.kind, "czNjcmV0").Content(t.Context(), header("Content-Type", tc.contentType), []byte(tc.body))
		read := string(c.Document)
		if c.Document == nil {
			read = "none"
		}
		if err != nil || read != tc.want {
			t.Errorf("%s: %q, %v; want %q", name, read, err, tc.want)
		}
	}
}

// FuzzFormField compares formField with the form parser of the standard library.
func FuzzFormField(f *testing.F) {
	for _, form := range []string{"", "payload=%7B%7D", "a=1&payload=a+b&payload=2", "%70ayload=1", "payload", "=&&payload==", "payload=%zz", "a;b&payload=1"} {
		f.Add(form)
	}
	f.Fuzz(func(t *testing.T, form string) {
		values, err := url.ParseQuery(form)
		if got := string(formField([]byte(form), "payload")); err == nil && strings.Count(form, "&") < maxFields && got != values.Get("payload") {
			t.Fatalf("%q, want %q", got, values.Get("payload"))
		}
	})
}
