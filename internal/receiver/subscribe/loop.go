package subscribe

import (
	"fmt"
	"hash/fnv"
	"time"

	"notifier/internal/event"
)

// The loop guard of Receivers of type event. A loop differs from a merely busy source by its object: an object's event triggers, and the
// same object has another event, over and over. A loop whose rounds are longer than loopWindow is not stopped: it triggers less often than
// once in loopWindow.
const (
	// loopRounds is the number of times in a row that one object's events may trigger, each within loopWindow after the one before, until they
	// count as a loop.
	loopRounds = 10
	loopWindow = time.Minute
	// loopRound is the time within which an object's events are of one round: one reconcile causes several.
	loopRound = time.Second
	// A stopped Receiver triggers once after each pause. Each such trigger that causes another event doubles the next pause.
	minLoopPause = time.Minute
	maxLoopPause = 8 * time.Minute
	// loopSlots bounds the memory of one Receiver's sources: objects whose names have one hash count as one.
	loopSlots = 128
)

// LoopPrefix begins the keys under which a Loop is reported: LoopPrefix + namespace + "/" + name.
const LoopPrefix = "Loop/"

// Loop is the state of the loop guard of a Receiver, as reported in JSON for the Receiver's status. The next worker continues from it, so
// that delayed events still trigger.
type Loop struct {
	// UID and Generation are those of the Receiver.
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
	// Held reports whether triggers wait until the namespace has room on the bus.
	Held bool `json:"held,omitempty"`
	// Looping is false when the loop is over.
	Looping bool `json:"looping"`
	// Kind and Object name the object whose events follow the Receiver's triggers. Pause is the present time between those triggers.
	Kind   string        `json:"kind,omitempty"`
	Object string        `json:"object,omitempty"`
	Pause  time.Duration `json:"pause,omitempty"`
}

// Message explains the Loop to the Receiver's owner.
func (l Loop) Message() string {
	if !l.Looping {
		return "events no longer follow the triggers of this Receiver"
	}
	return fmt.Sprintf("%s %q told an event after each of %d triggers in a row, within %s, so this Receiver seems to cause its own "+
		"events. It now triggers once in %s for what it holds back. Narrow spec.eventSources, or list in spec.events the reasons that count",
		l.Kind, l.Object, loopRounds, loopWindow, l.Pause)
}

// guard follows the rounds of one Receiver of one generation.
type guard struct {
	uid        string
	generation int64
	// rounds counts for each slot how often in a row its objects' events followed soon after they had triggered. at is the time of the last
	// round, from first, the time of the first event.
	rounds [loopSlots]uint8
	at     [loopSlots]time.Duration
	first  time.Time
	// last is the time of the last event.
	last time.Time
	// stop is nil while every event triggers.
	stop *stop
	// held reports whether triggers wait until the namespace has room on the bus.
	held bool
}

// stop is the state of a Receiver in a loop.
type stop struct {
	loop Loop
	slot int
	// until is the end of the pause, or, when probing, the end of the time in which the trigger may cause another event.
	until   time.Time
	probing bool
}

func newGuard(s *Subscription) *guard { return &guard{uid: s.UID, generation: s.Generation} }

// of reports whether the guard is of the subscription in its present version.
func (g *guard) of(s *Subscription) bool { return g.uid == s.UID && g.generation == s.Generation }

// evaluate reports whether an event triggers, and whether it changed the Loop to report.
func (g *guard) evaluate(o event.ObjectReference, now time.Time) (triggers, changed bool) {
	g.last = now
	slot := slotOf(o)
	switch {
	case g.stop != nil && !g.stop.probing:
		return false, false
	case g.stop != nil && g.stop.slot == slot:
		g.hold(o, slot, now)
		return false, true
	}
	if g.first.IsZero() {
		g.first = now
	}
	at, rounds := now.Sub(g.first), &g.rounds[slot]
	switch since := at - g.at[slot]; {
	case *rounds == 0 || since > loopWindow:
		g.at[slot], *rounds = at, 1
	case since < loopRound:
	case *rounds < loopRounds:
		g.at[slot], *rounds = at, *rounds+1
	default:
		g.hold(o, slot, now)
		return false, true
	}
	return true, false
}

// hold begins a pause.
func (g *guard) hold(o event.ObjectReference, slot int, now time.Time) {
	pause := minLoopPause
	if g.stop != nil {
		pause = min(2*g.stop.loop.Pause, maxLoopPause)
	}
	g.restore(Loop{UID: g.uid, Generation: g.generation, Looping: true, Kind: o.Kind, Object: o.Name, Pause: pause}, slot, now)
}

func (g *guard) restore(l Loop, slot int, now time.Time) {
	g.stop = &stop{loop: l, slot: slot, until: now.Add(l.Pause)}
}

// restored returns the guard of a reported Loop. Its pause begins again.
func restored(l Loop, now time.Time) *guard {
	g := &guard{uid: l.UID, generation: l.Generation, held: l.Held}
	if !l.Looping {
		return g
	}
	l.Pause = min(max(l.Pause, minLoopPause), maxLoopPause)
	g.restore(l, slotOf(event.ObjectReference{Kind: l.Kind, Name: l.Object}), now)
	return g
}

// due reports whether, at this time, the delayed events trigger, or the loop is over.
func (g *guard) due(now time.Time) (triggers, over bool) {
	switch {
	case g.stop == nil || now.Before(g.stop.until):
		return false, false
	case !g.stop.probing:
		g.stop.probing, g.stop.until = true, now.Add(loopWindow)
		return true, false
	default:
		g.stop = nil
		return false, true
	}
}

// forgettable reports whether the guard is equivalent to a new one.
func (g *guard) forgettable(now time.Time) bool {
	return g.stop == nil && !g.held && now.Sub(g.last) > loopWindow
}

// report returns the guard's Loop.
func (g *guard) report() Loop {
	l := Loop{UID: g.uid, Generation: g.generation}
	if g.stop != nil {
		l = g.stop.loop
	}
	l.Held = g.held
	return l
}

// slotOf returns the slot of an object, the same in every process, since a Loop outlives the process.
func slotOf(o event.ObjectReference) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(o.Kind + "/" + o.Name)) // a hash never fails
	return int(h.Sum32() % loopSlots)
}
