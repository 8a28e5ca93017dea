// Package access asks the Kubernetes API whose a token is (TokenReview, authentication.k8s.io/v1) and what its owner may
// (SubjectAccessReview, authorization.k8s.io/v1).
//
// An answer is believed for some seconds, counted from the moment of the question: a user and a right for four, a refusal for two.
// Equal questions at a time are one request. Who sends tokens that are none is held up by address before the Kubernetes API is asked, and
// all such senders together by a budget that tokens which were good before do not share. The questions about rights take turns by tenant.
package access
