// Package cdevents reads CDEvents (https://cdevents.dev) of specifications 0.4 and 0.5, and reports whether they are
// valid.
//
// table.go is the vocabulary: each type of event, its version in each specification, and the fields of its subject's
// content. For a new specification, add its constant and its column there, and a row for each type that is new or whose
// content differs.
//
// An event is valid if the CDEvents project's SDK for Go accepts it. The SDK compiles JSON schemas whenever a process
// starts; this package does not. oracle_test.go compares the two. The SDK decodes an event into a Go type, writes that
// as JSON and applies the schema to it. So many of a schema's demands are met, or void, for any input:
// unknown members are dropped, empty ones are dropped or added, and a missing time is year 1. An event may therefore
// lack its timestamp, its content and every text that may be empty. Two formats are checked, that of a source and that
// of an artifact's ID, which is required. This package is stricter than the SDK in three ways: it refuses links that are
// null, more links than MaxLinks, and artifact IDs at which the SDK panics.
package cdevents
