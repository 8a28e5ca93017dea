package grafana

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"notifier/internal/alerts/provider"
)

const (
	newest   = 50      // annotations of an object that are read
	maxReply = 1 << 20 // bytes of an answer; an annotation of ours has at most 10 KB in it
	maxText  = 1000    // characters of the message
)

// Sender sends to one Grafana.
type Sender struct {
	provider.Recoveries
	*provider.Client
	now func() time.Time
}

// New returns a Sender.
func New(cfg provider.Config) (*Sender, error) {
	client, err := provider.NewClient(cfg, provider.ClientOptions{Login: provider.Config.OptionalLogin, MaxReply: maxReply})
	if err != nil {
		return nil, err
	}
	return &Sender{Client: client, now: time.Now}, nil
}

// annotation is an annotation as it is written. Times are in milliseconds.
type annotation struct {
	Time    int64    `json:"time,omitempty"`
	TimeEnd int64    `json:"timeEnd,omitempty"`
	Text    string   `json:"text,omitempty"`
	Tags    []string `json:"tags,omitempty"`
	Data    *data    `json:"data,omitempty"`
}

// data is our part of an annotation, which Grafana keeps and shows nobody. The object's identity distinguishes the objects of clusters
// that share a Grafana.
type data struct {
	Delivery string `json:"delivery"`
	Object   string `json:"object"`
}

// UnmarshalJSON decodes data of ours and leaves d empty for any other data.
func (d *data) UnmarshalJSON(raw []byte) error {
	type plain data
	if json.Unmarshal(raw, (*plain)(d)) != nil {
		*d = data{}
	}
	return nil
}

// found is an annotation as it is read.
type found struct {
	ID      int64                 `json:"id"`
	Time    int64                 `json:"time"`
	TimeEnd int64                 `json:"timeEnd"`
	Tags    provider.List[string] `json:"tags"`
	Data    data                  `json:"data"`
}

// Send writes the event's annotation, and ends the region of a failure if the object recovered. An event that only closes has no
// annotation.
func (s *Sender) Send(ctx context.Context, n provider.Notification) error {
	return s.Recoveries.Send(n, func() error { return s.send(ctx, n) })
}

func (s *Sender) send(ctx context.Context, n provider.Notification) error {
	return s.Call(ctx, func(ctx context.Context) error {
		all, err := s.read(ctx, identity(n))
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(f found) bool { return n.DeliveryID != "" && f.Data.Delivery == n.DeliveryID }) {
			return nil
		}
		ours := data{Delivery: n.DeliveryID, Object: provider.ObjectID(n)}
		open, err := s.openRegion(ctx, n, all)
		if err != nil {
			return err
		}
		if open != nil && provider.Failed(n) {
			if s.Outdated(n) {
				return nil
			}
			return s.write(ctx, open, annotation{Text: text(n)})
		}
		at := n.Event.Timestamp
		if at.IsZero() {
			at = s.now()
		}
		if open != nil && provider.Recovered(n) {
			if err := s.write(ctx, open, annotation{TimeEnd: max(at.UnixMilli(), open.Time+1)}); err != nil {
				return err
			}
		}
		if provider.ClosesOnly(n) {
			return nil
		}
		return s.write(ctx, nil, annotation{Time: at.UnixMilli(), Text: text(n), Tags: tagsOf(n), Data: &ours})
	})
}

// read returns the newest annotations with the wanted tags, the newest first, and none if reading is forbidden.
func (s *Sender) read(ctx context.Context, wanted []string) ([]found, error) {
	u := s.URL()
	query := u.Query()
	maps.Copy(query, map[string][]string{"type": {"annotation"}, "limit": {strconv.Itoa(newest)}, "tags": wanted})
	u.RawQuery = query.Encode()
	var all provider.List[found]
	err := s.Exchange(ctx, provider.Request{Method: http.MethodGet, URL: u}, &all, "Grafana's API")
	if provider.StatusOf(err) == http.StatusForbidden {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(f found) bool { return !hasTags(f.Tags, wanted) }), nil
}

// openRegion returns the newest failure of the object if it has no end yet. It looks for it among the object's newest annotations. If they
// fill their page it also looks among the newest failures: an open region counts as old as its beginning, and any number of points may have
// followed.
func (s *Sender) openRegion(ctx context.Context, n provider.Notification, all []found) (*found, error) {
	object := provider.ObjectID(n)
	region := newestFailure(all, object)
	if region == nil && len(all) == newest && (provider.Failed(n) || provider.Recovered(n)) {
		failures, err := s.read(ctx, append(identity(n), failureTag))
		if err != nil {
			return nil, err
		}
		region = newestFailure(failures, object)
	}
	if region != nil && region.TimeEnd > region.Time {
		return nil, nil
	}
	return region, nil
}

// newestFailure returns the newest failure of an object, nil if there is none. For a Grafana that keeps no data, objects differ by their tags
// alone.
func newestFailure(all []found, object string) *found {
	i := slices.IndexFunc(all, func(f found) bool {
		return hasTags(f.Tags, []string{failureTag}) && (f.Data.Object == "" || f.Data.Object == object)
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

// write adds an annotation, or changes an existing one.
func (s *Sender) write(ctx context.Context, existing *found, a annotation) error {
	r := provider.Request{URL: s.URL(), JSON: a}
	if existing != nil {
		r.Method, r.URL = http.MethodPatch, s.URL(strconv.FormatInt(existing.ID, 10))
	}
	_, err := s.Do(ctx, r)
	return err
}

// text returns the object and the message.
func text(n provider.Notification) string {
	object := show(n.Event.InvolvedObject.String())
	if n.Event.Message == "" {
		return object
	}
	return object + "\n" + show(n.Event.Message)
}

func show(s string) string { return provider.EscapeHTML(provider.ReplaceControls(s), maxText) }
