package verify

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"notifier/internal/receiver/verify/cdevents"
)

const (
	changeMerged = `{"context":{"version":"0.4.1","id":"271069a8","source":"/ci/a","type":"dev.cdevents.change.merged.0.2.0",` +
		`"timestamp":"2023-03-20T14:27:05.315384Z"},"subject":{"id":"pr-42","source":"/git/a","type":"change","content":` +
		`{"repository":{"id":"a/b","source":"https://example.org"}}}}`
	buildFinished = `{"context":{"specversion":"0.5.0","id":"271069a9","source":"/ci/b","type":"dev.cdevents.build.finished.0.3.0",` +
		`"timestamp":"2026-03-20T14:27:05Z"},"subject":{"id":"b-1","source":"/ci/b","content":{"artifactId":"pkg:oci/app@sha256%3A0"}}}`
	customEvent = `{"context":{"version":"0.4.1","id":"1","source":"/ci/c","type":"dev.cdeventsx.acme-quota.exceeded.0.1.0",` +
		`"timestamp":"2026-03-20T14:27:05Z"},"subject":{"id":"q","source":"/ci/c","type":"acme-quota","content":{"limit":5}}}`
)

// with returns an event with one part of its text replaced by another.
func with(event, old, replacement string) string {
	if !strings.Contains(event, old) {
		panic(old + " is not in the event")
	}
	return strings.Replace(event, old, replacement, 1)
}

// withLinks returns a build with n copies of link.
func withLinks(n int, link string) string {
	links := strings.TrimSuffix(strings.Repeat(link+",", n), ",")
	return with(buildFinished, `"timestamp"`, `"links":[`+links+`],"timestamp"`)
}

const goodLink = `{"linkType":"END","from":{"contextId":"a"},"tags":{"k":"v"}}`

// Fails when parts of an event are not checked, when one of the two catalogues is left out, or when the version of the
// specification does not choose it. Fails also when a link of null is accepted. The package cdevents compares with the
// CDEvents project's own SDK.
func TestACDEventIsOneOfItsCatalogue(t *testing.T) {
	checkPayloads(t, "cdevents", map[string]payloadCase{
		"specification 0.4":               {changeMerged, nil},
		"specification 0.5":               {buildFinished, nil},
		"a custom type":                   {customEvent, nil},
		"custom data":                     {with(changeMerged, `"subject"`, `"customData":{"a":[1]},"subject"`), nil},
		"links":                           {withLinks(cdevents.MaxLinks, goodLink), nil},
		"too many links":                  {withLinks(cdevents.MaxLinks+1, goodLink), refusedCDEvent},
		"a link of null":                  {withLinks(1, "null"), refusedField},
		"a link of null in another case":  {strings.Replace(withLinks(1, "null"), "links", "LINKS", 1), refusedField},
		"a link of null that is replaced": {with(withLinks(1, "null"), `"timestamp"`, `"links":[],"timestamp"`), refusedField},
		"a link of a list":                {withLinks(1, "[]"), refusedField},
		"a link of no known type":         {withLinks(1, `{"linkType":"X"}`), refusedCDEvent},
		"links that are no list":          {with(changeMerged, `"timestamp"`, `"links":{},"timestamp"`), refusedField},
		"specification 0.3":               {strings.NewReplacer("0.4.1", "0.3.0", "merged.0.2.0", "merged.0.1.2").Replace(changeMerged), refusedCDEvent},
		"a type of the other catalogue":   {with(changeMerged, "merged.0.2.0", "merged.0.3.0"), refusedCDEvent},
		"a type of another major version": {with(changeMerged, "merged.0.2.0", "merged.1.2.0"), refusedCDEvent},
		"a type that is not listed":       {with(changeMerged, "change.merged", "change.eaten"), refusedCDEvent},
		"a type of nobody":                {with(changeMerged, "dev.cdevents", "com.example"), refusedField},
		"a type without version":          {with(changeMerged, ".0.2.0", ""), refusedField},
		"a type of a number":              {with(changeMerged, `"dev.cdevents.change.merged.0.2.0"`, "1"), refusedField},
		"no type":                         {with(changeMerged, `"type":"dev.cdevents.change.merged.0.2.0",`, ""), refusedCDEvent},
		"no ID":                           {with(changeMerged, `"id":"271069a8",`, ""), refusedCDEvent},
		"an empty ID":                     {with(changeMerged, "271069a8", ""), refusedCDEvent},
		"no source":                       {with(changeMerged, `"source":"/ci/a",`, ""), refusedCDEvent},
		"no version":                      {with(changeMerged, `"version":"0.4.1",`, ""), refusedCDEvent},
		"a time that is none":             {with(changeMerged, "2023-03-20T14:27:05.315384Z", "yesterday"), refusedField},
		"a subject of another type":       {with(changeMerged, `"type":"change"`, `"type":"build"`), refusedCDEvent},
		"a subject without ID":            {with(changeMerged, `"id":"pr-42",`, ""), refusedCDEvent},
		"no subject":                      {changeMerged[:strings.Index(changeMerged, `,"subject"`)] + "}", refusedCDEvent},
		"content of the wrong type":       {with(changeMerged, `"id":"a/b"`, `"id":7`), refusedCDEvent},
		"an artifact that is no purl":     {with(buildFinished, "pkg:oci/app", "app"), refusedCDEvent},
		"an artifact's odd qualifier":     {with(buildFinished, "pkg:oci/app@sha256%3A0", "pkg:oci/app?x"), refusedCDEvent},
		"custom data of a number":         {with(changeMerged, `"subject"`, `"customData":7,"subject"`), refusedCDEvent},
		"a schema of the sender's":        {with(changeMerged, `"timestamp"`, `"schemaUri":"https://example.org/s","timestamp"`), refusedCDEvent},
		"a schema in a file":              {with(changeMerged, `"timestamp"`, `"schemaUri":"file:///etc/passwd","timestamp"`), refusedCDEvent},
		"the greatest size":               {changeMerged + strings.Repeat(" ", maxCDEvent-len(changeMerged)), nil},
		"over size":                       {changeMerged + strings.Repeat(" ", maxCDEvent-len(changeMerged)+1), refusedLong},
	})
}

// Fails when the header is accepted without a check of the body, as in Flux, when the body is not read if there is no
// header, and when structured events are taken for CDEvents.
func TestACDEventIsNamedByItsTypeInHeaderAndBody(t *testing.T) {
	const merged = "dev.cdevents.change.merged.0.2.0"
	structured := func(kind, data string) string {
		return fmt.Sprintf(`{"specversion":"1.0","id":"7","source":"/s","type":%q,"datacontenttype":"application/json","data":%s}`, kind, data)
	}
	envelope := http.Header{"Content-Type": {"application/cloudevents+json; charset=utf-8"}}
	for name, tc := range map[string]struct {
		header         http.Header
		body           string
		want           error
		name, delivery string
	}{
		"no header":                  {http.Header{}, changeMerged, nil, merged, "271069a8 /ci/a"},
		"the body's type":            {http.Header{"Ce-Type": {merged}}, changeMerged, nil, merged, "271069a8 /ci/a"},
		"in capitals":                {http.Header{"Ce-Type": {strings.ToUpper(merged)}}, changeMerged, nil, strings.ToUpper(merged), "271069a8 /ci/a"},
		"without its version":        {http.Header{"Ce-Type": {"dev.cdevents.change.merged"}}, changeMerged, nil, "dev.cdevents.change.merged", "271069a8 /ci/a"},
		"as the first draft says it": {http.Header{"Ce-Type": {"cd.change.merged.v1"}}, changeMerged, nil, "cd.change.merged.v1", "271069a8 /ci/a"},
		"an ID of the CloudEvent": {
			http.Header{"Ce-Type": {merged}, "Ce-Id": {"9"}, "Ce-Source": {"/x"}}, changeMerged, nil, merged, "9 /x",
		},
		"another version":          {http.Header{"Ce-Type": {"dev.cdevents.change.merged.0.3.0"}}, changeMerged, refusedType, "", ""},
		"another type":             {http.Header{"Ce-Type": {"dev.cdevents.build.finished.0.3.0"}}, changeMerged, refusedType, "", ""},
		"another draft's type":     {http.Header{"Ce-Type": {"cd.change.created.v1"}}, changeMerged, refusedType, "", ""},
		"a part of the type":       {http.Header{"Ce-Type": {"dev.cdevents.change"}}, changeMerged, refusedType, "", ""},
		"a custom type":            {http.Header{}, customEvent, nil, "dev.cdeventsx.acme-quota.exceeded.0.1.0", "1 /ci/c"},
		"structured":               {envelope, structured(merged, changeMerged), nil, merged, "7 /s"},
		"structured, another type": {envelope, structured("dev.cdevents.build.finished.0.3.0", changeMerged), refusedType, "", ""},
		"structured, no type":      {envelope, structured("", changeMerged), refusedField, "", ""},
		"structured, no data":      {envelope, `{"specversion":"1.0","id":"7","source":"/s","type":"` + merged + `"}`, refusedField, "", ""},
		"structured, null":         {envelope, structured(merged, "null"), refusedCDEvent, "", ""},
		"structured, in base64":    {envelope, with(structured(merged, `"e30="`), `"data"`, `"data_base64"`), refusedField, "", ""},
		"a body that is not":       {envelope, changeMerged, refusedField, "", ""},
		"a body that is, unsaid":   {http.Header{}, structured(merged, changeMerged), refusedCDEvent, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parse(t, "cdevents", tc.header, tc.body)
			if !errors.Is(err, tc.want) || c.Event.Name != tc.name || c.Event.Delivery != tc.delivery {
				t.Fatalf("got %+v, %v, want %s, %s, %v", c.Event, err, tc.name, tc.delivery, tc.want)
			}
			if err == nil && (!c.Event.Selects || !strings.HasPrefix(string(c.Document), `{"context"`)) {
				t.Errorf("%+v does not select, or filters read %s", c.Event, c.Document)
			}
		})
	}
}

// Fails, and under -race at once, when events are decoded into one shared value: a field that one sender leaves out then
// has the value of another sender.
func TestCDEventsAreDecodedApart(t *testing.T) {
	lacking := with(changeMerged, `"id":"271069a8",`, "")
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for range 20 {
				if _, err := cdEvents.parse(http.Header{}, []byte(changeMerged)); err != nil {
					t.Errorf("a valid event: %v", err)
				}
				if _, err := cdEvents.parse(http.Header{}, []byte(lacking)); !errors.Is(err, refusedCDEvent) {
					t.Errorf("an event without ID: got %v", err)
				}
			}
		})
	}
	senders.Wait()
}

func FuzzCDEvents(f *testing.F) {
	fuzzParser(f, "cdevents", buildFinished, customEvent, withLinks(2, goodLink), withLinks(1, "null"),
		with(changeMerged, `"subject"`, `"customData":"AA==","customDataContentType":"text/plain","subject"`),
		`{"id":"7","source":"/s","type":"dev.cdevents.change.merged.0.2.0","data":`+changeMerged+`}`)
}
