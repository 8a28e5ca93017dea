package alerts

import (
	"context"
	"time"

	"notifier/internal/fair"
)

// followPause is the least time between two looks for news: news of that time is reported together.
const followPause = 200 * time.Millisecond

// Follow calls changed for each object that has news, at most every newsGap and within about that time. It calls all when counts that
// were unknown may have become known for any object. It runs until ctx ends. There is one follower at a time.
func (l *Ledger) Follow(ctx context.Context, changed func(kind, namespace, name string), all func()) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.signal:
		case <-timer.C:
		}
		told, everything, next := l.publish(time.Now())
		if everything {
			all()
		}
		for _, key := range told {
			changed(key.kind, key.namespace, key.name)
		}
		timer.Reset(max(followPause, time.Until(next)))
		if fair.Sleep(ctx, followPause) != nil {
			return
		}
	}
}

// publish makes the news that is due visible. It returns the objects with news, whether every object is to be read, and when to look
// again.
func (l *Ledger) publish(now time.Time) (told []objectName, everything bool, next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prune(now)
	next = now.Add(time.Hour)
	for key := range l.news {
		a := l.accounts[key]
		if due := a.told.Add(newsGap); due.After(now) {
			next = earlier(next, due)
			continue
		}
		a.shown, a.told = a.is, now
		delete(l.news, key)
		if _, exists := l.uid(key); exists { // an Alert may name any Provider
			told = append(told, key)
		}
	}
	everything, l.tell = l.tell, false
	return told, everything, next
}
