package event

import "context"

// Reader is the accepted events, in the order of the stream, for the one replica that reads them.
type Reader interface {
	// Read calls handle with what was not acknowledged yet and then with what comes, batch by batch, until ctx ends. After nil
	// the batch is acknowledged, after an error the same one is handled again.
	Read(ctx context.Context, handle func(ctx context.Context, batch []*Record) error) error
	// Skip acknowledges all events until now unread, unless idle says no: it is asked after "now" was settled, so that what comes
	// when it no longer says yes is not skipped. A Skip before the first Read costs no reading.
	Skip(ctx context.Context, idle func() bool) error
}
