package event

import "context"

// Handler takes the accepted events in, for the one replica that routes them.
type Handler struct {
	// Heavy reports whether handling a record may take long. Other namespaces do not wait for it.
	Heavy func(*Record) bool
	// Handle takes records in, those of one namespace in the order of the stream. Each is held until its Ack. After an error the same records
	// come again.
	Handle func(ctx context.Context, batch []Message[*Record]) error
	// CaughtUp is called with false at the beginning, and with true when every event that stood in the stream then was handled.
	CaughtUp func(ctx context.Context, yes bool)
	// Spill asks for the events up to a sequence to be done soon, since too many are held beyond them.
	Spill func(ctx context.Context, seq uint64)
}

// Reader is the accepted events, in the order of the stream, for the one replica that reads them.
type Reader interface {
	// Read calls handle with what was not acknowledged yet and then with what comes, batch by batch, until ctx ends. After nil
	// the batch is acknowledged, after an error the same one is handled again.
	Read(ctx context.Context, handle func(ctx context.Context, batch []*Record) error) error
	// Skip acknowledges all events until now unread, unless idle says no: it is asked after "now" was settled, so that what comes
	// when it no longer says yes is not skipped. A Skip before the first Read costs no reading.
	Skip(ctx context.Context, idle func() bool) error
}
