// Package answer has the answers of this module's HTTP handlers, with their labels for metrics and their log lines. An Answer is made once
// and not changed; its result is from a closed set, so that it can label a metric, and its reason quotes nothing of a request. A Refusal is
// an error whose text may be sent to the caller. A Log is bounded in lines a second about each namespace, so that a flood of requests is no
// flood of lines.
package answer
