package cdevents

import "strings"

// The specifications, as columns of versions.
const (
	spec04 = iota
	spec05
	specs
)

// versions are the versions of a type of event, one for each specification. A version is empty if the specification does
// not have the type, or has it in another row.
type versions [specs]string

// event is one type of event.
type event struct {
	// name is subject and predicate. An event has the subject's type in this spelling, and its own type in lower case.
	name     string
	versions versions
	content  fields
}

// The parts of contents.
var (
	reference = object(fields{{"id", required(text)}, {"source", uriReference}})
	sbom      = object(fields{{"uri", required(text)}})
	testCase  = object(fields{
		{"id", required(text)},
		{"name", text},
		{"uri", text},
		{"version", text},
		{"type", oneOf("performance", "functional", "unit", "security", "compliance", "integration", "e2e", "other")},
	})
	testSuite   = object(fields{{"id", required(text)}, {"name", text}, {"uri", text}, {"version", text}})
	testSuite04 = object(fields{{"id", required(text)}, {"name", text}, {"url", text}, {"version", text}})
	trigger     = object(fields{{"type", oneOf("manual", "pipeline", "event", "schedule", "other")}, {"uri", text}})
	outcome     = oneOf("success", "failure", "cancel", "error")
	outcome04   = oneOf("pass", "fail", "cancel", "error")
	severity    = oneOf("low", "medium", "high", "critical")
)

// The contents and parts of contents that several types of event share.
var (
	byUser       = fields{{"user", text}}
	inRepository = fields{{"repository", reference}}
	incident     = fields{{"artifactId", purl}, {"description", text}, {"environment", required(reference)}, {"service", reference}}
	deployment   = fields{{"artifactId", purl}, {"environment", required(reference)}}
	queuedCase   = fields{{"environment", required(reference)}, {"testCase", testCase}, {"testSuiteRun", reference}, {"trigger", trigger}}
	ticket       = fields{
		{"uri", required(text)},
		{"assignees", texts},
		{"labels", texts},
		{"group", text},
		{"milestone", text},
		{"priority", text},
		{"summary", text},
		{"ticketType", text},
	}
)

// finishedTest has the members that a finished case and a finished suite share. The words of the outcome depend on the specification.
func finishedTest(outcome form) fields {
	return fields{{"environment", required(reference)}, {"outcome", required(outcome)}, {"reason", text}, {"severity", severity}}
}

// events are all types except the custom ones.
var events = []event{
	{"artifact.deleted", versions{"0.1.0", "0.2.0"}, byUser},
	{"artifact.downloaded", versions{"0.1.0", "0.2.0"}, byUser},
	{"artifact.packaged", versions{"0.2.0", "0.3.0"}, fields{{"change", required(reference)}, {"sbom", sbom}}},
	{"artifact.published", versions{"0.2.0", "0.3.0"}, byUser.and(fields{{"sbom", sbom}})},
	{"artifact.signed", versions{"0.2.0", "0.3.0"}, fields{{"signature", required(text)}}},

	{"branch.created", versions{"0.2.0", "0.3.0"}, inRepository},
	{"branch.deleted", versions{"0.2.0", "0.3.0"}, inRepository},

	{"build.finished", versions{"0.2.0", "0.3.0"}, fields{{"artifactId", purl}}},
	{"build.queued", versions{"0.2.0", "0.3.0"}, nil},
	{"build.started", versions{"0.2.0", "0.3.0"}, nil},

	{"change.abandoned", versions{"0.2.0", "0.3.0"}, inRepository},
	{"change.created", versions{"0.3.0", "0.4.0"}, inRepository.and(fields{{"description", text}})},
	{"change.merged", versions{"0.2.0", "0.3.0"}, inRepository},
	{"change.reviewed", versions{"0.2.0", "0.3.0"}, inRepository},
	{"change.updated", versions{"0.2.0", "0.3.0"}, inRepository},

	{"environment.created", versions{spec04: "0.2.0"}, fields{{"name", text}, {"url", text}}},
	{"environment.created", versions{spec05: "0.3.0"}, fields{{"name", text}, {"uri", text}}},
	{"environment.deleted", versions{"0.2.0", "0.3.0"}, fields{{"name", text}}},
	{"environment.modified", versions{spec04: "0.2.0"}, fields{{"name", text}, {"url", text}}},
	{"environment.modified", versions{spec05: "0.3.0"}, fields{{"name", text}, {"uri", text}}},

	{"incident.detected", versions{"0.2.0", "0.3.0"}, incident},
	{"incident.reported", versions{"0.2.0", "0.3.0"}, incident.and(fields{{"ticketURI", required(text)}})},
	{"incident.resolved", versions{"0.2.0", "0.3.0"}, incident},

	{"pipelineRun.finished", versions{spec04: "0.2.0"}, fields{{"errors", text}, {"outcome", text}, {"pipelineName", text}, {"url", text}}},
	{"pipelineRun.finished", versions{spec05: "0.3.0"}, fields{{"errors", text}, {"outcome", outcome}, {"pipelineName", text}, {"uri", text}}},
	{"pipelineRun.queued", versions{spec04: "0.2.0"}, fields{{"pipelineName", text}, {"url", text}}},
	{"pipelineRun.queued", versions{spec05: "0.3.0"}, fields{{"pipelineName", text}, {"uri", text}}},
	{"pipelineRun.started", versions{spec04: "0.2.0"}, fields{{"pipelineName", text}, {"url", text}}},
	{"pipelineRun.started", versions{spec05: "0.3.0"}, fields{{"pipelineName", text}, {"uri", text}}},

	{"repository.created", versions{spec04: "0.2.0"}, fields{
		{"name", required(text)}, {"owner", text}, {"url", required(text)}, {"viewUrl", text},
	}},
	{"repository.created", versions{spec05: "0.3.0"}, fields{{"name", required(text)}, {"owner", text}, {"uri", text}, {"viewUrl", text}}},
	{"repository.deleted", versions{spec04: "0.2.0"}, fields{{"name", text}, {"owner", text}, {"url", text}, {"viewUrl", text}}},
	{"repository.deleted", versions{spec05: "0.3.0"}, fields{{"name", text}, {"owner", text}, {"uri", text}, {"viewUrl", text}}},
	{"repository.modified", versions{spec04: "0.2.0"}, fields{{"name", text}, {"owner", text}, {"url", text}, {"viewUrl", text}}},
	{"repository.modified", versions{spec05: "0.3.0"}, fields{{"name", text}, {"owner", text}, {"uri", text}, {"viewUrl", text}}},

	{"service.deployed", versions{"0.2.0", "0.3.0"}, deployment},
	{"service.published", versions{"0.2.0", "0.3.0"}, fields{{"environment", reference}}},
	{"service.removed", versions{"0.2.0", "0.3.0"}, fields{{"environment", reference}}},
	{"service.rolledback", versions{"0.2.0", "0.3.0"}, deployment},
	{"service.upgraded", versions{"0.2.0", "0.3.0"}, deployment},

	{"taskRun.finished", versions{spec04: "0.2.0"}, fields{
		{"errors", text}, {"outcome", text}, {"pipelineRun", reference}, {"taskName", text}, {"url", text},
	}},
	{"taskRun.finished", versions{spec05: "0.3.0"}, fields{
		{"errors", text}, {"outcome", text}, {"pipelineRun", reference}, {"taskName", text}, {"uri", text},
	}},
	{"taskRun.started", versions{spec04: "0.2.0"}, fields{{"pipelineRun", reference}, {"taskName", text}, {"url", text}}},
	{"taskRun.started", versions{spec05: "0.3.0"}, fields{{"pipelineRun", reference}, {"taskName", text}, {"uri", text}}},

	{"testCaseRun.finished", versions{spec04: "0.2.0"}, finishedTest(outcome04).and(fields{{"testCase", testCase}, {"testSuiteRun", reference}})},
	{"testCaseRun.finished", versions{spec05: "0.3.0"}, finishedTest(outcome).and(fields{{"testCase", testCase}, {"testSuiteRun", reference}})},
	{"testCaseRun.queued", versions{"0.2.0", "0.3.0"}, queuedCase},
	{"testCaseRun.skipped", versions{"0.1.0", "0.2.0"}, fields{
		{"environment", reference}, {"reason", text}, {"testCase", testCase}, {"testSuiteRun", reference},
	}},
	{"testCaseRun.started", versions{"0.2.0", "0.3.0"}, queuedCase},

	{"testOutput.published", versions{"0.2.0", "0.3.0"}, fields{
		{"outputType", required(oneOf("report", "video", "image", "log", "other"))},
		{"format", text},
		{"testCaseRun", reference},
		{"uri", text},
	}},

	{"testSuiteRun.finished", versions{spec04: "0.2.0"}, finishedTest(outcome04).and(fields{{"testSuite", testSuite}})},
	{"testSuiteRun.finished", versions{spec05: "0.3.0"}, finishedTest(outcome).and(fields{{"testSuite", testSuite}})},
	{"testSuiteRun.queued", versions{spec04: "0.2.0"}, fields{
		{"environment", required(reference)}, {"testSuite", testSuite04}, {"trigger", trigger},
	}},
	{"testSuiteRun.queued", versions{spec05: "0.3.0"}, fields{
		{"environment", required(reference)}, {"testSuite", testSuite}, {"trigger", trigger},
	}},
	{"testSuiteRun.started", versions{"0.2.0", "0.3.0"}, fields{
		{"environment", required(reference)}, {"testSuite", testSuite}, {"trigger", trigger},
	}},

	{"ticket.closed", versions{"0.1.0", "0.2.0"}, ticket.and(fields{{"creator", text}, {"resolution", required(text)}, {"updatedBy", text}})},
	{"ticket.created", versions{"0.1.0", "0.2.0"}, ticket.and(fields{{"creator", required(text)}})},
	{"ticket.updated", versions{"0.1.0", "0.2.0"}, ticket.and(fields{{"creator", text}, {"updatedBy", text}})},
}

// find returns the row of a type in a specification, nil for none.
func find(t Type, spec int) *event {
	for i := range events {
		e := &events[i]
		if e.versions[spec] == t.Version && t.Version != "" && strings.ToLower(e.name) == t.Subject+"."+t.Predicate {
			return e
		}
	}
	return nil
}

// subject returns the type of an event's subject, in the spelling of the specification.
func (e *event) subject() string {
	subject, _, _ := strings.Cut(e.name, ".")
	return subject
}
