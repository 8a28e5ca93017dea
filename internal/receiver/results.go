package receiver

import (
	"slices"
	"strings"
	"time"

	"notifier/internal/event"
	"notifier/internal/event/view"
	"notifier/internal/receiver/answer"
)

const (
	// maxSingle bounds the webhooks of one Receiver that are told of one by one in a report: 7 KB of memory until they are told, and
	// nothing for a Receiver that is quiet.
	maxSingle = 20
	// maxShownTargets bounds in bytes the names of targets that are told of one webhook, maxShownTarget each of them. An object's name has
	// at most 253 bytes, its kind 63.
	maxShownTargets = 512
	maxShownTarget  = 320
)

// Received is a webhook, or an event, as far as it is told of beside its answer.
type Received struct {
	// ID is the sender's. It is told if Proved says that the sender proved to know the token, or that an event is about an object that
	// is known.
	ID     string
	Proved bool
	// Targets are TargetNames of what it asked to reconcile. They are not changed afterwards.
	Targets []string
	// Fault says of an accepted one why filters failed, safe to show.
	Fault string
}

// results are the webhooks of one Receiver that were not told of yet: the newest by senders who know the token one by one, up to
// maxSingle, and all others counted under their result, of which there is a closed set.
type results struct {
	// single is in the order of arrival from index oldest on, and from its beginning again.
	single  []single
	oldest  int
	counted []counted
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

// counted are several with one result.
type counted struct {
	at     time.Time // of the last one
	answer *answer.Answer
	count  int64
}

// add takes in a webhook by a sender who knows the token, and only counts the oldest one where there is no room.
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

// inOrder are the single ones, the oldest first.
func (r *results) inOrder() []single { return slices.Concat(r.single[r.oldest:], r.single[:r.oldest]) }

// join takes in what came after.
func (r *results) join(later *results) {
	for _, s := range later.inOrder() {
		r.add(s)
	}
	for _, c := range later.counted {
		r.count(c)
	}
}

// view tells of them as results of a Receiver, the newest last.
func (r *results) view(namespace, receiver string) []view.Webhook {
	all := make([]view.Webhook, 0, len(r.single)+len(r.counted))
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
		w.ID, w.Targets = printable(string(s.id[:s.length]), maxShownID), s.targets
		if s.fault != "" {
			w.Reason = s.fault
		}
		all = append(all, w)
	}
	slices.SortStableFunc(all, func(a, b view.Webhook) int { return a.Time.Compare(b.Time) })
	return all
}

// TargetNames names the targets of triggers for their owner, as "Kind/name" or "Kind with labels", each once. What goes beyond
// maxShownTargets is left out.
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
