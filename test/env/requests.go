package env

import (
	"context"
	"fmt"
	"time"
)

// The least time between two reports about incoming requests in the status of one Receiver, however many arrive.
const (
	ReportGap = 5 * time.Second
	// RefusalGap is the least time between reports of refusals alone.
	RefusalGap = time.Minute
)

// quiet is how long a notifier must send no request to the API server to count as being at rest.
const quiet = 3 * time.Second

// Ours reports whether the notifier of the installation made the request. Watches do not count: the API server closes
// them after their time and they are opened again, also by a notifier at rest.
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

// WithoutReports returns the entries without two kinds of request: the reviews of service accounts' rights, which are
// made at their own pace, and the writes of reports about incoming requests to the status of Receivers. Those writes are
// so rare that the number of requests does not matter. It returns an error if two writes to one Receiver are less than
// gap apart.
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
