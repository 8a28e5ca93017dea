package alertmanager

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"notifier/internal/alerts/provider"
)

const (
	maxMessage = 8000    // characters of an annotation
	maxValue   = 1000    // characters of a label's name or value
	maxReply   = 1 << 20 // bytes of the answer to a look-up
	// maxAuthored is the number of labels of the Alert's author that distinguish objects of one name.
	maxAuthored = 32
	// fires is the time for which an alert fires after its failure was last sent, without another event of its object.
	fires = 24 * time.Hour
)

// summaryKey is the metadata key that becomes an annotation instead of a label.
const summaryKey = "summary"

// The annotations with the UIDs of the Provider and the Alert that fired an alert. Objects of two clusters may have all labels in common, and
// the labels that an Alert's author writes may be edited while an alert fires.
const (
	providerKey = "flux_provider"
	alertKey    = "flux_alert"
)

// Sender sends to one Alertmanager.
type Sender struct {
	provider.Recoveries
	*provider.Client
	provider string // the Provider's UID
	now      func() time.Time
}

// New returns a Sender.
func New(cfg provider.Config) (*Sender, error) {
	if cfg.Username != "" && cfg.Password != "" {
		cfg.Token = "" // username and password take precedence
	}
	client, err := provider.NewClient(cfg, provider.ClientOptions{Login: provider.Config.OptionalLogin, MaxReply: maxReply})
	if err != nil {
		return nil, err
	}
	return &Sender{Client: client, provider: cfg.UID, now: time.Now}, nil
}

// alert is an alert of API version 2, as it is posted and returned.
type alert struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations,omitempty"`
	StartsAt    time.Time         `json:"startsAt,omitzero"`
	EndsAt      time.Time         `json:"endsAt,omitzero"`
}

// Send fires the alert of a failure, or ends the alerts of an object that recovered.
func (s *Sender) Send(ctx context.Context, n provider.Notification) error {
	return s.Recoveries.Send(n, func() error { return s.send(ctx, n) })
}

func (s *Sender) send(ctx context.Context, n provider.Notification) error {
	return s.Call(ctx, func(ctx context.Context) error {
		switch {
		case provider.Failed(n):
			fired := firing(n, s.now())
			s.sign(fired, n)
			if err := s.post(ctx, []alert{fired}); err != nil {
				return err
			}
			_ = s.end(ctx, n, fired.Labels) // the failure was delivered; the recovery ends the rest
			return nil
		case provider.Recovered(n):
			return s.end(ctx, n, nil)
		default:
			return nil
		}
	})
}

// sign writes into the annotations of an alert by which Provider and which Alert it is fired.
func (s *Sender) sign(fired alert, n provider.Notification) {
	if s.provider == "" {
		return
	}
	fired.Annotations[providerKey] = s.provider
	if n.AlertUID != "" {
		fired.Annotations[alertKey] = n.AlertUID
	}
}

// end ends the firing alerts of the object that this Provider fired: after a recovery all of them, after a failure, whose alert has the labels
// except, the others of its Alert. A replayed notification leaves the alerts of newer failures alone.
func (s *Sender) end(ctx context.Context, n provider.Notification, except map[string]string) error {
	identity := identityOf(n)
	object := map[string]string{}
	u := s.URL()
	query := u.Query()
	for _, name := range []string{"kind", "name", "namespace", "reportingcontroller"} {
		object[name] = identity[name]
		query.Add("filter", name+"="+quote(identity[name]))
	}
	u.RawQuery = query.Encode()
	var found provider.List[alert]
	if err := s.Exchange(ctx, provider.Request{Method: http.MethodGet, URL: u}, &found, "Alertmanager's API"); err != nil {
		return provider.At("look-up of the firing alerts", err)
	}
	ended := slices.DeleteFunc(found, func(a alert) bool {
		byProvider, byAlert := a.Annotations[providerKey], a.Annotations[alertKey]
		switch {
		case maps.Equal(a.Labels, except), byProvider != "" && byProvider != s.provider, !matches(a.Labels, object):
			return true
		case n.Replayed && a.StartsAt.After(n.Event.Timestamp):
			return true // of a newer failure
		case byProvider == "" || except != nil && byAlert == "": // it is not signed, or not wholly, as by an earlier version
			return !matches(a.Labels, identity)
		default:
			return except != nil && byAlert != n.AlertUID
		}
	})
	if len(ended) == 0 {
		return nil
	}
	for i, a := range ended {
		ended[i].EndsAt = n.Event.Timestamp
		if a.StartsAt.After(n.Event.Timestamp) { // Alertmanager refuses an end before the start
			ended[i].EndsAt = a.StartsAt
		}
	}
	return s.post(ctx, ended)
}

func (s *Sender) post(ctx context.Context, alerts []alert) error {
	_, err := s.Do(ctx, provider.Request{URL: s.URL(), JSON: alerts})
	return err
}

// firing returns the alert of a failure that is sent now.
func firing(n provider.Notification, now time.Time) alert {
	e := n.Event
	start := e.Timestamp
	if start.IsZero() {
		start = now
	}
	end := start.Add(fires)
	if late := now.Add(fires); late.After(end) {
		end = late
	}
	a := alert{Labels: map[string]string{}, Annotations: map[string]string{}, StartsAt: start, EndsAt: end}
	put := func(to map[string]string, name, value string, limit int) {
		if value = provider.Truncate(value, limit); value != "" && to[name] == "" {
			to[name] = value
		}
	}
	for name, value := range identityOf(n) {
		put(a.Labels, name, value, maxValue)
	}
	put(a.Labels, "alertname", "Flux"+e.InvolvedObject.Kind+title(e.Reason), maxValue)
	put(a.Labels, "severity", e.Severity, maxValue)
	put(a.Labels, "reason", e.Reason, maxValue)
	for _, f := range provider.Facts(n, maxValue) {
		if name := labelName(f.Name); !slices.Contains(fixed, name) && f.Name != summaryKey && f.Name != provider.MoreFacts {
			put(a.Labels, name, f.Value, maxValue)
		}
	}
	put(a.Annotations, "message", e.Message, maxMessage)
	put(a.Annotations, summaryKey, e.Metadata[summaryKey], maxMessage)
	return a
}

// fixed are the names of labels that no metadata replaces.
var fixed = []string{"alertname", "kind", "name", "namespace", "reason", "reportingcontroller", "severity"}

// identityOf returns the labels that all alerts of the object have in common. A label that they lack has an empty value.
func identityOf(n provider.Notification) map[string]string {
	e := n.Event
	identity := map[string]string{
		"kind": e.InvolvedObject.Kind, "name": e.InvolvedObject.Name, "namespace": e.InvolvedObject.Namespace,
		"reportingcontroller": e.ReportingController,
	}
	for _, key := range n.Authored[:min(len(n.Authored), maxAuthored)] {
		if name := labelName(key); key != summaryKey && !slices.Contains(fixed, name) && identity[name] == "" {
			identity[name] = n.Event.Metadata[key]
		}
	}
	for name, value := range identity {
		identity[name] = provider.Truncate(value, maxValue)
	}
	return identity
}

// labelName returns a key of metadata as the name of a label.
func labelName(key string) string {
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, key)
	if name == "" || '0' <= name[0] && name[0] <= '9' {
		name = "_" + name
	}
	return name
}

// title returns a reason as alert names have it: "HealthCheckFailed" as "Healthcheckfailed".
func title(reason string) string {
	first, size := utf8.DecodeRuneInString(reason)
	if size == 0 {
		return ""
	}
	return strings.ToUpper(string(first)) + strings.ToLower(reason[size:])
}

var quoter = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// quote returns a matcher's value in quotes.
func quote(value string) string { return `"` + quoter.Replace(value) + `"` }

// matches reports whether labels have the wanted values. An empty value means that the label is absent.
func matches(labels, wanted map[string]string) bool {
	for name, value := range wanted {
		if labels[name] != value {
			return false
		}
	}
	return true
}
