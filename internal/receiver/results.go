package receiver

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
	"notifier/internal/receiver/answer"
)

const (
	// maxSingle bounds the single results of one Receiver in a report: 7 KB of memory until the report, and nothing for a quiet Receiver.
	maxSingle = 20
	// maxShownTargets bounds in bytes the names of targets that are shown of one webhook, maxShownTarget each of them. An object's name has at
	// most 253 bytes, its kind 63.
	maxShownTargets = 512
	maxShownTarget  = 320
)

// Received is the part of a webhook, or of an event, that is shown beside its answer.
type Received struct {
	// ID is the sender's. It is shown if Proved: the sender proved that it knows the token, or the event is about a known object.
	ID     string
	Proved bool
	// Previous says that a token before the present one proved it.
	Previous bool
	// Targets are the TargetNames of the webhook's triggers. They are not changed afterwards.
	Targets []string
	// Fault is the reason, safe to show, why filters failed for an accepted webhook.
	Fault string
}

// results are the webhooks of one Receiver since its last report. The newest by senders that know the token are single results, up to
// maxSingle. All others are counted under their result, of which there is a closed set.
type results struct {
	// single is a ring in the order of arrival: it begins at index oldest.
	single  []single
	oldest  int
	counted []counted
	// reported says that a report had the counts of these webhooks.
	reported bool
}

// single is one webhook.
type single struct {
	at      time.Time
	answer  *answer.Answer
	targets []string
	fault   string
	id      [maxShownID]byte
	length  int
}

// shownID returns the webhook's ID in a form that is safe to show.
func (s *single) shownID() string { return printable(string(s.id[:s.length]), maxShownID) }

// counted are several webhooks with one result.
type counted struct {
	at     time.Time // of the last one
	answer *answer.Answer
	count  int64
}

// add adds a webhook by a sender that knows the token. If all places are taken, the oldest single result becomes a count.
func (r *results) add(s single) {
	if len(r.single) < maxSingle {
		r.single = append(r.single, s)
		return
	}
	old := &r.single[r.oldest]
	r.count(counted{old.at, old.answer, 1})
	*old = s
	r.oldest = (r.oldest + 1) % maxSingle
}

// count counts webhooks under their result.
func (r *results) count(c counted) {
	i := slices.IndexFunc(r.counted, func(have counted) bool { return have.answer.Result == c.answer.Result })
	if i < 0 {
		r.counted = append(r.counted, c)
		return
	}
	have := &r.counted[i]
	have.count += c.count
	if !have.at.After(c.at) {
		have.at, have.answer = c.at, c.answer
	}
}

// inOrder returns the single results, the oldest first.
func (r *results) inOrder() []single { return slices.Concat(r.single[r.oldest:], r.single[:r.oldest]) }

// join adds later results, which no report had.
func (r *results) join(later *results) {
	r.reported = false
	for _, s := range later.inOrder() {
		r.add(s)
	}
	for _, c := range later.counted {
		r.count(c)
	}
}

// view returns the results as those of a Receiver, the newest last.
func (r *results) view(namespace, receiver string) []view.Webhook {
	all := make([]view.Webhook, 0, len(r.counted)+len(r.single))
	told := func(at time.Time, a *answer.Answer, count int64) view.Webhook {
		return view.Webhook{
			Namespace: namespace, Receiver: receiver, Time: at.UTC(), Result: a.Result, Reason: printable(a.Reason, maxFault), Count: count,
		}
	}
	for _, c := range r.counted {
		all = append(all, told(c.at, c.answer, c.count))
	}
	for _, s := range r.inOrder() {
		w := told(s.at, s.answer, 1)
		w.ID, w.Targets, w.Reason = s.shownID(), s.targets, cmp.Or(s.fault, w.Reason)
		all = append(all, w)
	}
	slices.SortStableFunc(all, func(a, b view.Webhook) int { return a.Time.Compare(b.Time) })
	return all
}

// TargetNames names the targets of triggers for their owner, as "Kind/name" or "Kind with labels", each once. Names beyond maxShownTargets
// are left out.
func TargetNames(triggers []event.Trigger) []string {
	var names []string
	for left := maxShownTargets; len(triggers) > 0; triggers = triggers[1:] {
		name := targetName(triggers[0].Target)
		if slices.Contains(names, name) {
			continue
		}
		if left -= len(name); left < 0 {
			break
		}
		names = append(names, name)
	}
	return names
}

func targetName(t event.Target) string {
	var b strings.Builder
	b.WriteString(t.Kind)
	if labels := t.Selector(); labels != "" {
		b.WriteString(" with ")
		b.WriteString(labels)
	} else {
		b.WriteByte('/')
		b.WriteString(t.Name)
	}
	return printable(b.String(), maxShownTarget)
}
