package env

import (
	"context"
	"fmt"
	"time"
)

// The least time between two writes of what came in to the status of one Receiver, whatever comes in.
const (
	ReportGap = 5 * time.Second
	// RefusalGap is that of refusals alone.
	RefusalGap = time.Minute
)

// quiet is how long nothing is asked of the API server by a notifier that is at rest.
const quiet = 3 * time.Second

// Ours reports whether the notifier of the installation made the request. Watches are closed by the API server after their time and
// opened again, whatever comes in.
func Ours(e AuditEntry) bool {
	return e.User.Username == ServiceAccountUser(SystemNamespace, ServiceAccount) && e.Verb != "watch"
}

// Settled waits until the notifier has made no request for a while, and returns the audit log from then on.
func (w *System) Settled(ctx context.Context) (*Audit, error) {
	for {
		audit, err := w.Audit()
		if err != nil {
			return nil, err
		}
		short, cancel := context.WithTimeout(ctx, quiet)
		_, err = audit.Wait(short, Ours)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil: // nothing came
			return audit, nil
		}
	}
}

// WithoutReports returns the entries but for the reviews of what service accounts may, which are made at their own pace, and for the writes
// of what came in to the status of Receivers: those are so seldom that it does not matter how much it was. It is an error when one Receiver's are less than the gap apart.
func WithoutReports(entries []AuditEntry, during, gap time.Duration) (rest []AuditEntry, err error) {
	reports := map[string]int{}
	for _, e := range entries {
		o := e.ObjectRef
		if o.Resource == "selfsubjectaccessreviews" {
			continue
		}
		if o.Resource != "receivers" || o.Subresource != "status" {
			rest = append(rest, e)
			continue
		}
		reports[o.Namespace+"/"+o.Name]++
	}
	for receiver, n := range reports {
		if n > int(during/gap)+1 {
			err = fmt.Errorf("the status of %s was written %d times in %s", receiver, n, during)
		}
	}
	return rest, err
}
