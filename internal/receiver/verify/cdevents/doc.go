// Package cdevents reads CDEvents (https://cdevents.dev), of specifications 0.4 and 0.5, and tells valid ones from others.
//
// table.go is the vocabulary: each type of event, its version in each specification, and what its subject's content has. For a new
// specification, add its constant and its column there, and a row for each type that is new or whose content differs.
//
// The verdict is that of the CDEvents project's SDK for Go, which compiles JSON schemas for it whenever a process starts;
// oracle_test.go compares the two. The SDK decodes an event into a Go type, writes that as JSON and applies the schema to it. Much
// that a schema asks for is then there, or gone, whatever was sent: members that it does not know are dropped, empty ones are
// dropped or added, and a time that was not given is year 1. So an event may lack its timestamp, its content and what is a text that
// may be empty. Formats are not asked for, except that of a source, and that of an artifact's ID, which must be there. Beyond the
// SDK, links that are null are refused, more links than MaxLinks, and IDs of artifacts that make it panic.
package cdevents
