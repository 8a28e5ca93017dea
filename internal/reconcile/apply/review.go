package apply

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"notifier/internal/reconcile/kube"
)

const (
	// reviewDelay is the pause between the compile of a Receiver and its review: objects applied along with it exist by then.
	reviewDelay = time.Second
	// reviewWorkers bounds the concurrent reviews of changed Receivers, and separately those in turn.
	reviewWorkers = 2
	// maxQuestions bounds the questions for a namespace in one interval, turnQuestions those in one turn. The rest is asked in the next.
	maxQuestions  = 128
	turnQuestions = 16
	// minDenialPause is the pause before a Receiver with findings is reviewed again. It doubles up to the interval, since RBAC often
	// arrives after the Receiver.
	minDenialPause = 5 * time.Second
	// answerTime is how long an answer counts for another Receiver that is reviewed out of turn.
	answerTime = 3 * time.Second
)

// reviewer finds out which writes the API server would refuse, before any webhook and then at an interval, in one term. It reviews all
// Receivers of a namespace together, so that a question common to several is asked once. A nil one reviews none.
type reviewer struct {
	a     *Applier
	owned func() bool
	// fresh has the Receivers that changed. rounds has namespaces, without a name, and Receivers with findings. Namespaces take turns in
	// both.
	fresh, rounds *kube.Controller[kube.Key]

	mu sync.Mutex
	// namespaces are the namespaces that have Receivers and whose next turn is set.
	namespaces map[string]*round
}

// round is the state of one namespace. The reviewer's lock protects it.
type round struct {
	// pending are the Receivers still to be reviewed in this round. began is when the round began.
	pending []string
	began   time.Time
	// asked counts the questions of the interval that ends at until.
	asked int
	until time.Time
	// answers are the answers of this round, pauses the pauses of Receivers with findings.
	answers map[question]answered
	pauses  map[string]time.Duration
}

func newReviewer(a *Applier, owned func() bool) *reviewer {
	v := &reviewer{a: a, owned: owned, namespaces: map[string]*round{}}
	queue := func() *kube.Controller[kube.Key] {
		return kube.NewController(kube.ControllerOptions[kube.Key]{
			Workers: reviewWorkers, Parts: kube.Key.Parts, Reconcile: v.work, Log: a.opts.Log,
		})
	}
	v.fresh, v.rounds = queue(), queue()
	return v
}

// run reviews until ctx ends.
func (v *reviewer) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, queue := range []*kube.Controller[kube.Key]{v.fresh, v.rounds} {
		wg.Go(func() { queue.Run(ctx) })
	}
}

// work reviews a Receiver, or without a name a namespace. It enqueues the remaining work and returns no error.
func (v *reviewer) work(ctx context.Context, n kube.Key) error {
	if n.Name == "" {
		v.turn(ctx, n.Namespace)
	} else {
		v.review(ctx, n, time.Now().Add(-answerTime))
	}
	return nil
}

// changed schedules a review of a Receiver. It does not block and takes no lock of the term.
func (v *reviewer) changed(namespace, receiver string) {
	if v == nil {
		return // a new worker reviews all
	}
	v.fresh.EnqueueAfter(kube.Key{Namespace: namespace, Name: receiver}, reviewDelay)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.namespaces[namespace] == nil {
		v.namespaces[namespace] = newRound()
		v.rounds.EnqueueAfter(kube.Key{Namespace: namespace}, v.untilPlace(namespace))
	}
}

// all schedules a review of each namespace, after the earlier reports about its Receivers were read.
func (v *reviewer) all() {
	if v == nil {
		return
	}
	for _, namespace := range v.a.opts.Receivers.Namespaces() {
		v.rounds.EnqueueAfter(kube.Key{Namespace: namespace}, reviewDelay)
	}
}

func newRound() *round {
	return &round{answers: map[question]answered{}, pauses: map[string]time.Duration{}}
}

// turn reviews a namespace's Receivers until the questions of one turn are used up.
func (v *reviewer) turn(ctx context.Context, namespace string) {
	asked, ok := v.begin(namespace)
	if !ok && len(v.a.opts.Receivers.InNamespace(namespace)) > 0 { // they came meanwhile, and changed saw that a turn was set
		v.rounds.EnqueueAfter(kube.Key{Namespace: namespace}, v.untilPlace(namespace))
	}
	limit := min(asked+turnQuestions, maxQuestions)
	for ok && ctx.Err() == nil {
		receiver, began, left := v.take(namespace, limit)
		switch {
		case receiver != "":
			v.review(ctx, kube.Key{Namespace: namespace, Name: receiver}, began)
		case left && limit < maxQuestions:
			v.rounds.Enqueue(kube.Key{Namespace: namespace}) // behind the others
			return
		default:
			v.rounds.EnqueueAfter(kube.Key{Namespace: namespace}, v.untilPlace(namespace))
			return
		}
	}
}

// begin begins a namespace's turn, and a new round if the previous one is over. It returns the number of questions asked in this
// interval, and false if there is nothing to ask.
func (v *reviewer) begin(namespace string) (asked int, ok bool) {
	receivers := v.a.opts.Receivers.InNamespace(namespace)
	v.a.refusals.forget(namespace, receivers)
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(receivers) == 0 {
		delete(v.namespaces, namespace)
		return 0, false
	}
	r := v.namespaces[namespace]
	if r == nil {
		r = newRound()
		v.namespaces[namespace] = r
	}
	if now := time.Now(); !now.Before(r.until) {
		r.asked, r.until = 0, now.Add(v.untilPlace(namespace))
	}
	if len(r.pending) > 0 {
		return r.asked, true
	}
	pauses := r.pauses
	r.began, r.answers, r.pauses = time.Now(), map[question]answered{}, map[string]time.Duration{}
	for _, one := range receivers {
		r.pending = append(r.pending, one.Name)
		if pause := pauses[one.Name]; pause > 0 {
			r.pauses[one.Name] = pause
		}
	}
	return r.asked, true
}

// take returns the next Receiver of a namespace and the time when the round began. There is no Receiver if none is left or if limit
// questions were asked; left then reports the latter.
func (v *reviewer) take(namespace string, limit int) (receiver string, began time.Time, left bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := v.namespaces[namespace]
	switch {
	case r == nil || len(r.pending) == 0:
		return "", time.Time{}, false
	case r.asked >= limit:
		return "", time.Time{}, true
	}
	receiver, r.pending = r.pending[0], r.pending[1:]
	return receiver, r.began, true
}

// untilPlace returns the time until a namespace's place in the interval, more than zero and at most one interval. The places of
// namespaces are spread over it.
func (v *reviewer) untilPlace(namespace string) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(namespace)) // a hash never fails
	every := int64(v.a.opts.ReviewInterval)
	place := int64(h.Sum64() % uint64(every))
	return time.Duration(every - (time.Now().UnixNano()%every-place+every)%every)
}

// review reviews one Receiver with answers that are no older than since, and shows the findings.
func (v *reviewer) review(ctx context.Context, n kube.Key, since time.Time) {
	r, ok := v.a.opts.Receivers.Live(n.Namespace, n.Name)
	if !ok {
		return
	}
	found := v.find(ctx, r, since)
	if ctx.Err() != nil || !v.owned() {
		return
	}
	v.a.mendUnasked(r)
	v.a.refusals.reviewed(r, found.denied, found.unknown)
	v.mu.Lock()
	defer v.mu.Unlock()
	round := v.namespaces[n.Namespace]
	if round == nil {
		return
	}
	if len(found.denied) == 0 && !found.again {
		delete(round.pauses, n.Name)
		return
	}
	if pause := max(2*round.pauses[n.Name], minDenialPause); pause < v.a.opts.ReviewInterval {
		round.pauses[n.Name] = pause
		v.rounds.EnqueueAfter(n, pause)
	}
}
