// Package access authenticates tokens (TokenReview, authentication.k8s.io/v1) and authorizes their owners (SubjectAccessReview,
// authorization.k8s.io/v1) by the Kubernetes API.
//
// An answer is kept for some seconds, counted from the beginning of the review: a user and a right for four, a refusal for two.
// Equal concurrent reviews are one request. Senders of invalid tokens are refused by address before the Kubernetes API is called.
// All such senders together have one budget, beside which addresses that have sent no invalid token for a minute have a reserve; tokens
// that were good before have another. The concurrent reviews of each tenant's rights are bounded, and so are each tenant's tokens that
// are remembered. A tenant's further tokens count as invalid ones there.
//
// When a namespace was made is kept for four seconds too, at most until the next review finds a right in it, and read within the budget of
// access reviews.
package access
