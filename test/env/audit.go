package env

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// AuditUser is the user of a request, or the impersonated user.
type AuditUser struct {
	Username string   `json:"username"`
	Groups   []string `json:"groups"`
}

// AuditObject is the object of a request.
type AuditObject struct {
	APIGroup    string `json:"apiGroup"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

// AuditEntry is one request in the API server's audit log.
type AuditEntry struct {
	AuditID          string      `json:"auditID"`
	Stage            string      `json:"stage"`
	Verb             string      `json:"verb"`
	RequestURI       string      `json:"requestURI"`
	UserAgent        string      `json:"userAgent"`
	User             AuditUser   `json:"user"`
	ImpersonatedUser *AuditUser  `json:"impersonatedUser"`
	ObjectRef        AuditObject `json:"objectRef"`
	ResponseStatus   struct {
		Code   int    `json:"code"`
		Reason string `json:"reason"`
	} `json:"responseStatus"`
	// Authentication names the verb of constrained impersonation that allowed the request; the constraint is empty for
	// the plain verb impersonate.
	Authentication struct {
		ImpersonationConstraint string `json:"impersonationConstraint"`
	} `json:"authenticationMetadata"`
	Received time.Time `json:"requestReceivedTimestamp"`
}

// Impersonated returns the impersonated user's name, or "".
func (e AuditEntry) Impersonated() string {
	if e.ImpersonatedUser == nil {
		return ""
	}
	return e.ImpersonatedUser.Username
}

// Audit reads the audit log from the moment at which the Audit was made.
type Audit struct {
	mu     sync.Mutex
	file   string
	offset int64
	// within says that offset is within a line that was being written when the Audit was made: it is of an earlier
	// request.
	within  bool
	entries []AuditEntry
}

// Audit starts reading the cluster's audit log at its present end. The control plane logs neither its own requests there
// nor probes.
func (c *Cluster) Audit() (*Audit, error) {
	if c.AuditLog == "" {
		return nil, errors.New("this cluster's audit log is not known; name it in " + auditLogVariable)
	}
	return auditOf(c.AuditLog)
}

func auditOf(file string) (*Audit, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	a := &Audit{file: file}
	if a.offset, err = f.Seek(0, io.SeekEnd); err != nil || a.offset == 0 {
		return a, err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, a.offset-1); err != nil {
		return nil, err
	}
	a.within = last[0] != '\n'
	return a, nil
}

// Entries returns the entries so far. A request's entry may be written a moment after its client got the answer.
func (a *Audit) Entries() ([]AuditEntry, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f, err := os.Open(a.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(a.offset, io.SeekStart); err != nil {
		return nil, err
	}
	for lines := bufio.NewReaderSize(f, 1<<20); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			// An incomplete line is read again the next time.
			return slices.Clip(a.entries), nil
		}
		if err != nil {
			return nil, err
		}
		if a.within {
			a.within = false
			a.offset += int64(len(line))
			continue
		}
		var e AuditEntry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("audit log: %w in %q", err, line)
		}
		a.offset += int64(len(line))
		a.entries = append(a.entries, e)
	}
}

// Find returns the entries that match accepts.
func (a *Audit) Find(match func(AuditEntry) bool) ([]AuditEntry, error) {
	all, err := a.Entries()
	var found []AuditEntry
	for _, e := range all {
		if match(e) {
			found = append(found, e)
		}
	}
	return found, err
}

// Wait returns the first entry that match accepts, as soon as it is logged.
func (a *Audit) Wait(ctx context.Context, match func(AuditEntry) bool) (AuditEntry, error) {
	var entry AuditEntry
	err := Eventually(ctx, func(context.Context) error {
		found, err := a.Find(match)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return errors.New("no such entry in the audit log")
		}
		entry = found[0]
		return nil
	})
	return entry, err
}
