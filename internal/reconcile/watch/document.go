package watch

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// document has the fields of a Flux object's JSON that are read. A large cluster sends a hundred megabytes of JSON at a start, and
// these fields are a tenth of it. The rest is skipped and never decoded into Go values.
type document struct {
	APIVersion string     `json:"apiVersion"`
	Metadata   objectMeta `json:"metadata"`
	Status     status     `json:"status"`
	refusal
}

// refusal has the fields of the answer that the API server sends instead of an object when a watch cannot continue.
type refusal struct {
	Code    int32               `json:"code"`
	Reason  metav1.StatusReason `json:"reason"`
	Message string              `json:"message"`
}

// asStatus returns the refusal as Kubernetes' own type.
func (r refusal) asStatus() *metav1.Status {
	return &metav1.Status{
		Status: metav1.StatusFailure, Code: cmp.Or(r.Code, http.StatusInternalServerError), Reason: r.Reason, Message: r.Message,
	}
}

// status has the fields of all kinds' statuses that are read. Each kind has some of them.
type status struct {
	ObservedGeneration    int64             `json:"observedGeneration"`
	Conditions            []statusCondition `json:"conditions"`
	LastAppliedRevision   string            `json:"lastAppliedRevision"`
	LastAttemptedRevision string            `json:"lastAttemptedRevision"`
	ObservedSourcesDigest string            `json:"observedSourcesDigest"`
	LatestImage           string            `json:"latestImage"`
	Artifact              struct {
		Revision string `json:"revision"`
	} `json:"artifact"`
	LatestRef struct {
		Tag    string `json:"tag"`
		Digest string `json:"digest"`
	} `json:"latestRef"`
	History []struct {
		ChartVersion string `json:"chartVersion"`
	} `json:"history"`
}

type statusCondition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
	LastTransitionTime second `json:"lastTransitionTime"`
	ObservedGeneration int64  `json:"observedGeneration"`
}

// tolerate drops the error of a value of the wrong type for its field: that field stays empty, and the rest is read. A malformed status
// of one object must not stop its kind.
func tolerate(err error) error {
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil
	}
	return err
}
