package sender

import (
	"encoding/json"

	"github.com/cdevents/sdk-go/pkg/api"
	v04 "github.com/cdevents/sdk-go/pkg/api/v04"
	v05 "github.com/cdevents/sdk-go/pkg/api/v05"
)

// CDEvent returns an event as a CloudEvent in binary mode: its attributes are headers, its data is the body.
func CDEvent(e api.CDEventReader) Webhook {
	ce, err := api.AsCloudEvent(e)
	if err != nil {
		panic(err)
	}
	return webhook(string(ce.Data()), "Ce-Specversion", ce.SpecVersion(), "Ce-Id", ce.ID(), "Ce-Source", ce.Source(), "Ce-Type", ce.Type(),
		"Ce-Subject", ce.Subject())
}

// CDEventStructured returns an event as a CloudEvent in structured mode: all of it is the body.
func CDEventStructured(e api.CDEventReader) Webhook {
	ce, err := api.AsCloudEvent(e)
	if err != nil {
		panic(err)
	}
	body, err := json.Marshal(ce)
	if err != nil {
		panic(err)
	}
	return webhook(string(body), "Content-Type", "application/cloudevents+json")
}

// ArtifactPublished returns an event of specification 0.4.
func ArtifactPublished() api.CDEventReader {
	e, err := v04.NewArtifactPublishedEvent()
	if err != nil {
		panic(err)
	}
	e.SetId(delivery())
	e.SetSource("/ci/release")
	e.SetSubjectId("pkg:oci/app@sha256%3A0b31b1c02ff458ad9b7b81cbdf8f028bd54699fa151f221d1e8de6817db93427")
	return e
}

// PipelineRunFinished returns an event of specification 0.5.
func PipelineRunFinished() api.CDEventReader {
	e, err := v05.NewPipelineRunFinishedEvent()
	if err != nil {
		panic(err)
	}
	e.SetId(delivery())
	e.SetSource("/ci/pipelines")
	e.SetSubjectId("run-7")
	e.SetSubjectPipelineName("release")
	e.SetSubjectOutcome("success")
	return e
}
