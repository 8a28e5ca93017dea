// Package api_test holds the generated CRDs and the samples to the API that they promise.
package api_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	durationWithHours = `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	duration          = `^([0-9]+(\.[0-9]+)?(ms|s|m))+$`
	kindPattern       = `^[A-Za-z][A-Za-z0-9]*$`
	accountPattern    = `^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	receiverTypes     = "generic,generic-hmac,generic-oidc,github,gitlab,bitbucket,harbor,dockerhub,quay,gcr,nexus,acr,cdevents," +
		"gitea,standard-webhooks,event"
	providerTypes = "slack,discord,msteams,rocket,generic,generic-hmac,github,gitlab,gitea,giteapullrequestcomment,bitbucketserver," +
		"bitbucket,azuredevops,googlechat,googlepubsub,webex,sentry,azureeventhub,telegram,lark,matrix,opsgenie,alertmanager," +
		"grafana,githubdispatch,githubpullrequestcomment,gitlabmergerequestcomment,pagerduty,datadog,nats,zulip,otel,zoom,incident.io,mastodon,email,mattermost,cloudevents"
)

// reference is the part of a list that selects objects, below the list's path.
func reference(path string) map[string]string {
	return map[string]string{
		path:                    "array required",
		path + "[]":             "object",
		path + "[].apiVersion":  "string",
		path + "[].kind":        "string required 1..63 " + kindPattern,
		path + "[].name":        "string required 1..253",
		path + "[].namespace":   "string 1..253",
		path + "[].matchLabels": "object of string",
	}
}

// withDeliveries adds what Alerts and Providers show of their deliveries.
func withDeliveries(fields map[string]string) map[string]string {
	for _, count := range []string{"pending", "dead", "delivered", "failed"} {
		fields["status."+count] = "integer"
	}
	fields["status.countedSince"] = "string"
	fields["status.recent"] = "array ..10 items"
	for _, path := range []string{"status.lastDelivery", "status.lastFailure", "status.recent[]"} {
		fields[path] = "object"
		fields[path+".time"] = "string required"
		for _, name := range []string{"object", "reason", "outcome", "class", "failure", "nextTry"} {
			fields[path+"."+name] = "string"
		}
		fields[path+".attempts"], fields[path+".status"] = "integer", "integer"
	}
	return fields
}

// receiverExtras are the fields of a Receiver that Flux does not have, but for serviceAccountName.
var receiverExtras = map[string]string{
	"spec.eventSources":        "array ..64 items",
	"spec.rateLimit":           "object",
	"spec.rateLimit.perMinute": "integer required",
	"spec.rateLimit.burst":     "integer",

	"spec.resources[].matchExpressions":            "array ..16 items",
	"spec.resources[].matchExpressions[]":          "object",
	"spec.resources[].matchExpressions[].key":      "string required",
	"spec.resources[].matchExpressions[].operator": "string required",
	"spec.resources[].matchExpressions[].values":   "array",
	"spec.resources[].matchExpressions[].values[]": "string",

	"status.deliveries":                   "object",
	"status.deliveries.since":             "string required",
	"status.deliveries.accepted":          "integer",
	"status.deliveries.folded":            "integer",
	"status.deliveries.duplicate":         "integer",
	"status.deliveries.refused":           "integer",
	"status.deliveries.failed":            "integer",
	"status.deliveries.last":              "object",
	"status.deliveries.last.time":         "string required",
	"status.deliveries.last.id":           "string",
	"status.deliveries.last.result":       "string required",
	"status.deliveries.last.reason":       "string",
	"status.deliveries.lastError":         "object",
	"status.deliveries.lastError.time":    "string required",
	"status.deliveries.lastPreviousToken": "string",
	"status.deliveries.lastError.id":      "string",
	"status.deliveries.lastError.result":  "string required",
	"status.deliveries.lastError.reason":  "string",
}

// schemas is the whole of the three kinds, field by field: the type, whether it is required, bounds, pattern, default, enum.
// What Flux has is as Flux has it, so that its manifests apply unchanged; what it has not is optional.
var schemas = map[string]map[string]string{
	"receivers": merge(reference("spec.resources"), reference("spec.eventSources"), receiverExtras, map[string]string{
		"spec":                      "object 7 rules",
		"spec.type":                 "string required enum=" + receiverTypes,
		"spec.interval":             "string default=10m " + durationWithHours,
		"spec.events":               "array",
		"spec.events[]":             "string",
		"spec.resources[].filter":   "string ..4096",
		"spec.resourceFilter":       "string ..4096",
		"spec.secretRef":            "object",
		"spec.secretRef.name":       "string required",
		"spec.oidcProviders":        "array ..16 items key=issuerURL",
		"spec.oidcProviders[]":      "object",
		"spec.serviceAccountName":   "string 1..253 " + accountPattern,
		"spec.suspend":              "boolean",
		"status":                    "object default=map[observedGeneration:-1]",
		"status.conditions":         "array",
		"status.observedGeneration": "integer",
		"status.problem":            "string",

		"spec.oidcProviders[].issuerURL":                "string required ..2048 ^https?://",
		"spec.oidcProviders[].audience":                 "string ..2048",
		"spec.oidcProviders[].variables":                "array ..32 items",
		"spec.oidcProviders[].variables[]":              "object",
		"spec.oidcProviders[].variables[].name":         "string required ..256",
		"spec.oidcProviders[].variables[].expression":   "string required ..4096",
		"spec.oidcProviders[].validations":              "array required 1.. items ..32 items",
		"spec.oidcProviders[].validations[]":            "object",
		"spec.oidcProviders[].validations[].expression": "string required ..4096",
		"spec.oidcProviders[].validations[].message":    "string required ..1024",

		"status.webhookPath":            "string",
		"status.lastHandledReconcileAt": "string",
	}),
	"alerts": merge(reference("spec.eventSources"), withDeliveries(map[string]string{
		"spec":                     "object",
		"spec.providerRef":         "object required",
		"spec.providerRef.name":    "string required",
		"spec.eventSeverity":       "string default=info enum=info,error",
		"spec.inclusionList":       "array",
		"spec.inclusionList[]":     "string",
		"spec.exclusionList":       "array",
		"spec.exclusionList[]":     "string",
		"spec.eventMetadata":       "object of string",
		"spec.summary":             "string ..255",
		"spec.suspend":             "boolean",
		"status":                   "object",
		"status.conditions":        "array",
		"status.lastHandledReplay": "string",
		"status.lastMatched":       "string",
		"status.lastSent":          "string",
		"status.problem":           "string",
	})),
	"providers": withDeliveries(map[string]string{
		"spec":                     "object 1 rules",
		"spec.type":                "string required enum=" + providerTypes,
		"spec.interval":            "string " + durationWithHours,
		"spec.channel":             "string ..2048",
		"spec.username":            "string ..2048",
		"spec.address":             "string ..2048",
		"spec.timeout":             "string " + duration,
		"spec.proxy":               "string ..2048 ^(http|https)://.*$",
		"spec.proxySecretRef":      "object",
		"spec.proxySecretRef.name": "string required",
		"spec.rateLimit":           "object",
		"spec.rateLimit.perSecond": "integer required",
		"spec.rateLimit.burst":     "integer",
		"spec.secretRef":           "object",
		"spec.secretRef.name":      "string required",
		"spec.certSecretRef":       "object",
		"spec.certSecretRef.name":  "string required",
		"spec.serviceAccountName":  "string",
		"spec.suspend":             "boolean",
		"spec.commitStatusExpr":    "string",
		"spec.jetstream":           "boolean",
		"status":                   "object",
		"status.conditions":        "array",
		"status.lastDelivered":     "string",
		"status.lastHandledReplay": "string",
		"status.lastHandledTest":   "string",
		"status.waiting":           "integer",
		"status.problem":           "string",
	}),
}

// TestCRDsHaveEveryFieldWithItsValidation fails when a field, a bound, a default or a rule is added, changed or lost: change
// the pattern of Provider.spec.timeout, say, or drop a field.
func TestCRDsHaveEveryFieldWithItsValidation(t *testing.T) {
	for plural, want := range schemas {
		t.Run(plural, func(t *testing.T) {
			got := map[string]string{}
			root := dig[object](t, version(t, readCRD(t, plural)), "schema", "openAPIV3Schema")
			for _, top := range []string{"spec", "status"} {
				describe(got, top, dig[object](t, root, "properties", top), false)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBothVersionsOfAlertsAndProvidersHaveAllFields fails when version v1beta3 is no longer stored, so that a cluster cannot go back to Flux
// 2.9, when it is not told to be deprecated, and when one of the versions lacks a field or the status: what a manifest says would be dropped.
func TestBothVersionsOfAlertsAndProvidersHaveAllFields(t *testing.T) {
	for _, plural := range []string{"alerts", "providers"} {
		crd := readCRD(t, plural)
		now, versions := version(t, crd), dig[[]any](t, crd, "spec", "versions")
		if len(versions) != 2 {
			t.Fatalf("%s: %d versions, want 2", plural, len(versions))
		}
		before, _ := versions[1].(object)
		if name := dig[string](t, before, "name"); name != "v1beta3" || !dig[bool](t, before, "served") || !dig[bool](t, before, "storage") ||
			!dig[bool](t, before, "deprecated") {
			t.Errorf("%s: %s is not served, stored and deprecated", plural, name)
		}
		for _, path := range [][]string{
			{"schema", "openAPIV3Schema", "properties", "spec"}, {"schema", "openAPIV3Schema", "properties", "status"}, {"subresources"},
		} {
			if diff := cmp.Diff(dig[object](t, now, path...), dig[object](t, before, path...)); diff != "" {
				t.Errorf("%s: %v (-v1 +v1beta3):\n%s", plural, path, diff)
			}
		}
	}
}

// TestKindsOfOtherProjectsMayBeNamed fails when kind gets an enum: users name kinds that nobody here has heard of.
func TestKindsOfOtherProjectsMayBeNamed(t *testing.T) {
	for _, path := range [][]string{{"receivers", "resources"}, {"alerts", "eventSources"}} {
		root := dig[object](t, version(t, readCRD(t, path[0])), "schema", "openAPIV3Schema")
		kind := dig[object](t, root, "properties", "spec", "properties", path[1], "items", "properties", "kind")
		if enum, ok := kind["enum"]; ok {
			t.Errorf("%s.spec.%s[].kind is limited to %v", path[0], path[1], enum)
		}
	}
}

// TestCRDsAreServedAsFluxServesThem fails when a marker of the Go types is lost: the status subresource, a printer column, a
// category, the annotation that keeps Flux from substituting variables in descriptions.
func TestCRDsAreServedAsFluxServesThem(t *testing.T) {
	columnsBetween := map[string][]string{
		"receivers": {"Accepted=.status.deliveries.accepted", "Last=.status.deliveries.last.time", "Problem=.status.problem"},
		"alerts": {
			"Matched=.status.lastMatched", "Last=.status.lastSent", "Pending=.status.pending", "Dead=.status.dead", "Problem=.status.problem",
		},
		"providers": {
			`Delivering=.status.conditions[?(@.type=="Delivering")].status`, "Last=.status.lastDelivered", "Pending=.status.pending",
			"Dead=.status.dead", "Problem=.status.problem",
		},
	}
	for _, plural := range []string{"receivers", "alerts", "providers"} {
		t.Run(plural, func(t *testing.T) {
			crd := readCRD(t, plural)
			got := map[string]any{
				"name":        dig[string](t, crd, "metadata", "name"),
				"substitute":  dig[string](t, crd, "metadata", "annotations", "kustomize.toolkit.fluxcd.io/substitute"),
				"scope":       dig[string](t, crd, "spec", "scope"),
				"categories":  dig[[]any](t, crd, "spec", "names", "categories"),
				"version":     dig[string](t, version(t, crd), "name"),
				"served":      dig[bool](t, version(t, crd), "served"),
				"storage":     dig[bool](t, version(t, crd), "storage"),
				"subresource": dig[object](t, version(t, crd), "subresources"),
			}
			var columns []string
			for _, c := range dig[[]any](t, version(t, crd), "additionalPrinterColumns") {
				column, _ := c.(object)
				columns = append(columns, fmt.Sprintf("%v=%v", column["name"], column["jsonPath"]))
			}
			got["columns"] = columns
			want := map[string]any{
				"name":        plural + ".notification.toolkit.fluxcd.io",
				"substitute":  "disabled",
				"scope":       "Namespaced",
				"categories":  []any{"all", "fluxcd", "fluxcd-notifications"},
				"version":     "v1",
				"served":      true,
				"storage":     plural == "receivers",
				"subresource": object{"status": object{}},
				"columns": slices.Concat(
					[]string{"Age=.metadata.creationTimestamp", `Ready=.status.conditions[?(@.type=="Ready")].status`},
					columnsBetween[plural],
					[]string{`Status=.status.conditions[?(@.type=="Ready")].message`},
				),
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

type object = map[string]any

func readCRD(t *testing.T, plural string) object {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "config", "crd", "bases", "notification.toolkit.fluxcd.io_"+plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd object
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// version returns the first version of a CRD.
func version(t *testing.T, crd object) object {
	t.Helper()
	first, _ := dig[[]any](t, crd, "spec", "versions")[0].(object)
	return first
}

func dig[T any](t *testing.T, in object, path ...string) T {
	t.Helper()
	for _, p := range path[:len(path)-1] {
		next, ok := in[p].(object)
		if !ok {
			t.Fatalf("no object at %q of %v", p, path)
		}
		in = next
	}
	value, ok := in[path[len(path)-1]].(T)
	if !ok {
		t.Fatalf("%v is %T", path, in[path[len(path)-1]])
	}
	return value
}

// describe notes a schema and all below it, one line a field. Conditions are the same in every API and are not followed.
func describe(fields map[string]string, path string, schema object, required bool) {
	words := []string{fmt.Sprint(schema["type"])}
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	if of, ok := schema["additionalProperties"].(object); ok {
		add("of %v", of["type"])
	}
	if required {
		add("required")
	}
	least, hasLeast := schema["minLength"]
	most, hasMost := schema["maxLength"]
	switch {
	case hasLeast && hasMost:
		add("%v..%v", least, most)
	case hasLeast:
		add("%v..", least)
	case hasMost:
		add("..%v", most)
	}
	if n, ok := schema["minItems"]; ok {
		add("%v.. items", n)
	}
	if n, ok := schema["maxItems"]; ok {
		add("..%v items", n)
	}
	if key, ok := schema["x-kubernetes-list-map-keys"].([]any); ok {
		add("key=%v", key[0])
	}
	if d, ok := schema["default"]; ok {
		add("default=%v", d)
	}
	if p, ok := schema["pattern"]; ok {
		add("%v", p)
	}
	if e, ok := schema["enum"].([]any); ok {
		add("enum=%s", strings.ReplaceAll(strings.Trim(fmt.Sprint(e), "[]"), " ", ","))
	}
	if rules, ok := schema["x-kubernetes-validations"].([]any); ok {
		add("%d rules", len(rules))
	}
	fields[path] = strings.Join(words, " ")

	if strings.HasSuffix(path, ".conditions") {
		return
	}
	if items, ok := schema["items"].(object); ok {
		describe(fields, path+"[]", items, false)
	}
	needed, _ := schema["required"].([]any)
	properties, _ := schema["properties"].(object)
	for name, property := range properties {
		if p, ok := property.(object); ok {
			describe(fields, path+"."+name, p, slices.Contains(needed, any(name)))
		}
	}
}

func merge(parts ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, p := range parts {
		maps.Copy(all, p)
	}
	return all
}
