package install

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"notifier/test/crds"
	"notifier/test/env"
)

// bounds are the demands of our definitions that Flux's do not have, each with the words of docs/flux.md about it. No object that Flux's
// definitions take is refused by those without words.
var bounds = map[string]string{
	"Receiver spec.resourceFilter maxLength 4096":                           "4 KiB an expression",
	"Receiver spec.resources[].filter maxLength 4096":                       "4 KiB an expression",
	"Receiver spec.oidcProviders maxItems 16":                               "16 issuers",
	"Receiver spec.oidcProviders[].issuerURL maxLength 2048":                "2,048 characters an `issuerURL` or `audience`",
	"Receiver spec.oidcProviders[].audience maxLength 2048":                 "2,048 characters an `issuerURL` or `audience`",
	"Receiver spec.oidcProviders[].variables maxItems 32":                   "32 `variables`",
	"Receiver spec.oidcProviders[].variables[].name maxLength 256":          "256 the name of a variable",
	"Receiver spec.oidcProviders[].variables[].expression maxLength 4096":   "4 KiB an expression",
	"Receiver spec.oidcProviders[].validations maxItems 32":                 "32 `validations`",
	"Receiver spec.oidcProviders[].validations[].expression maxLength 4096": "4 KiB an expression",
	"Receiver spec.oidcProviders[].validations[].message maxLength 1024":    "1,024 a `message`",

	// Only what Flux does not have is refused: the type event, and the field eventSources.
	"Receiver spec rule self.type != 'event' || !has(self.secretRef)":                                    "",
	"Receiver spec rule self.type != 'event' || (has(self.eventSources) && size(self.eventSources) > 0)": "",
	"Receiver spec rule self.type == 'event' || !has(self.eventSources) || size(self.eventSources) == 0": "",
	"Receiver spec rule self.type == 'generic-oidc' || self.type == 'event' || has(self.secretRef)":      "",
	// Flux's definition has the same rule in other words.
	"Provider spec rule !has(self.commitStatusExpr) || self.type in " +
		"['github', 'gitlab', 'gitea', 'bitbucketserver', 'bitbucket', 'azuredevops']": "",
}

// Manifests for Flux apply unchanged, but for what the page about the swap names. Fails when our definitions get a bound that Flux's do not
// have and the page does not tell, or lose one that it tells of.
func TestThePageAboutTheSwapNamesEachBoundThatFluxDoesNotHave(t *testing.T) {
	root, err := env.ProductDir()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "flux.md"))
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(string(page)), " ")
	found, err := crds.FluxNotification(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	theirs := schemas(t, found)
	own, err := manifests("crd")
	if err != nil {
		t.Fatal(err)
	}
	listed := maps.Clone(bounds)
	for kind, ours := range schemas(t, own) {
		for _, bound := range stricter("", ours, theirs[kind]) {
			bound = kind + " " + bound
			if told, ok := listed[bound]; !ok {
				t.Errorf("Flux's definitions do not have: %s", bound)
			} else if !strings.Contains(words, told) {
				t.Errorf("docs/flux.md does not say %q of: %s", told, bound)
			}
			delete(listed, bound)
		}
	}
	if len(listed) > 0 {
		t.Errorf("our definitions do not have %q", slices.Sorted(maps.Keys(listed)))
	}
}

// demands are the keywords of a schema by which a value is refused, but for enum, required and rules.
var demands = []string{
	"type", "format", "pattern", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
	"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "allOf", "anyOf", "oneOf", "not",
	"x-kubernetes-list-type", "x-kubernetes-list-map-keys",
}

// stricter returns the demands below path of a schema that another one does not have, of the fields that both have.
func stricter(path string, ours, theirs map[string]any) (found []string) {
	values, closed := theirs["enum"].([]any)
	for _, keyword := range demands {
		demand, ok := ours[keyword]
		if ok && fmt.Sprint(demand) != fmt.Sprint(theirs[keyword]) && !(closed && holds(keyword, demand, values)) {
			found = append(found, fmt.Sprintf("%s %s %v", path, keyword, demand))
		}
	}
	if own, ok := ours["enum"].([]any); ok && (!closed || slices.ContainsFunc(values, func(v any) bool { return !slices.Contains(own, v) })) {
		found = append(found, fmt.Sprintf("%s enum %v", path, own))
	}
	optional, _ := theirs["required"].([]any)
	required, _ := ours["required"].([]any)
	for _, field := range required {
		if !slices.Contains(optional, field) {
			found = append(found, fmt.Sprintf("%s required %v", path, field))
		}
	}
	known := rules(theirs)
	for _, rule := range rules(ours) {
		if !slices.Contains(known, rule) {
			found = append(found, path+" rule "+rule)
		}
	}
	for _, part := range []string{"items", "additionalProperties"} {
		if below, ok := ours[part].(map[string]any); ok {
			other, _ := theirs[part].(map[string]any)
			found = append(found, stricter(path+"[]", below, other)...)
		}
	}
	properties, _ := ours["properties"].(map[string]any)
	others, _ := theirs["properties"].(map[string]any)
	for name, property := range properties {
		schema, _ := property.(map[string]any)
		if other, both := others[name].(map[string]any); both {
			found = append(found, stricter(strings.TrimPrefix(path+"."+name, "."), schema, other)...)
		}
	}
	return found
}

// holds reports whether all values meet a demand.
func holds(keyword string, demand any, values []any) bool {
	return !slices.ContainsFunc(values, func(v any) bool {
		text, _ := v.(string)
		switch n, _ := strconv.Atoi(fmt.Sprint(demand)); keyword {
		case "pattern":
			return !regexp.MustCompile(fmt.Sprint(demand)).MatchString(text)
		case "minLength":
			return utf8.RuneCountInString(text) < n
		case "maxLength":
			return utf8.RuneCountInString(text) > n
		}
		return true
	})
}

// rules returns the expressions that a schema demands to be true.
func rules(schema map[string]any) (all []string) {
	list, _ := schema["x-kubernetes-validations"].([]any)
	for _, entry := range list {
		rule, _ := entry.(map[string]any)
		all = append(all, fmt.Sprint(rule["rule"]))
	}
	return all
}
