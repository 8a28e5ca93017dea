package event

import "context"

// Handler processes the accepted events, on the one replica that routes them.
type Handler struct {
	// Heavy reports whether handling a record may take long. Other namespaces do not wait for it.
	Heavy func(*Record) bool
	// Full reports whether the next records of a namespace are to wait: those that were handled still take much memory.
	Full func(namespace string) bool
	// Handle processes records, those of one namespace in the order of the stream. Each stays open until its Ack. After an error the
	// same records are passed again.
	Handle func(ctx context.Context, batch []Message[*Record]) error
	// Begin is called once, before the first record. Until the end, behind reports whether events of a namespace that were in the stream at
	// the beginning are not yet handled.
	Begin func(behind func(namespace string) bool)
	// CaughtUp is called when behind has become false for a namespace or more.
	CaughtUp func(ctx context.Context)
	// Spill asks for the events up to a sequence to be done soon, since too many later ones are open.
	Spill func(ctx context.Context, seq uint64)
}

// Reader reads the accepted events in the order of the stream, on the one replica that reads them.
type Reader interface {
	// Read calls handle with the unacknowledged events and then with new ones, batch by batch, until ctx ends. A batch is acknowledged
	// after nil; after an error the same batch is passed again.
	Read(ctx context.Context, handle func(ctx context.Context, batch []*Record) error) error
	// Skip acknowledges all events until now unread if idle returns true. It calls idle after it has fixed the end, so no event is
	// skipped that was accepted after idle had become false. A Skip before the first Read reads nothing.
	Skip(ctx context.Context, idle func() bool) error
}
