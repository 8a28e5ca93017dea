// Package bus is the only connection between the stages of notifier: six JetStream streams and three buckets, on a nats-server in this
// process or on a remote one. Together with the packages browse and embedded below it, it is the only user of NATS.
//
// # Loss
//
// A publish returns nil only after the stream's acknowledgement. With the embedded server it also waits for a sync of the files (see Disk);
// a remote server's acknowledgement is trusted. After an error the message may or may not be stored. Publishing it again does no harm:
// events and deliveries have identities, and a trigger replaces an older one of its target. A published message is handed out until it is
// acknowledged, also after kill -9 of this process. A message that is undecodable, too large, or in hand at a hundred crashes becomes a
// dead letter and blocks no other message.
//
// The streams have these bounds:
//   - EVENTS keeps 24 hours and Budgets.Events bytes, and discards the oldest. Publishing is refused with ErrFull when the stream is three
//     quarters full and half of it is not yet routed, or not yet read for Receivers of type event. So a flood is answered 503 before it
//     pushes out events that are still to be handled. The state of the stream is read every two seconds, so a quarter of the budget must
//     outlast the events published meanwhile. It is refused as well while too many events of the namespace wait to be routed, on every
//     replica: the worker publishes them on the subject notifier.backlogged.
//   - DELIVERIES: Quota returns how many deliveries of one namespace the stream takes. Above half of Budgets.Deliveries that is the number
//     of average messages that fit into the free bytes. The deliverer gives up the oldest beyond it. The server cannot refuse here, since
//     it allows scheduled messages only on streams that discard old ones. So the last bound is the embedded server's total, at which it
//     refuses.
//   - TRIGGERS: one message a target, Budgets.Triggers bytes; beyond them new targets are refused with ErrFull. Above half of them a
//     namespace with an eighth, or with as many as are free, is refused with event.ErrTooManyTriggers.
//   - DEADLETTERS: 7 days, Options.DeadPerProvider messages a Provider, Budgets.DeadLetters bytes; the oldest are discarded.
//   - HISTORY: Options.HistoryAge, Budgets.History bytes; the oldest are discarded. This process remembers the last 100,000 to 200,000
//     deliveries that were sent, in memory. When its term begins, a worker reads the last 15 minutes of HISTORY. A delivery that
//     is not remembered is not recognized.
//   - WEBHOOKS: 24 hours, 2,880 messages a Receiver, Budgets.Webhooks bytes; the oldest are discarded.
//
// While EVENTS or one of the last three streams is more than half full, the oldest messages of a namespace with more than an eighth of its
// bytes are purged, of EVENTS those that were routed and read for Receivers of type event.
//
// The bounds are scaled down together to the size of the disk, but none below the unhandled messages that its stream keeps. So a data
// directory on a disk that has become smaller opens with all of them.
//
// When the disk is full nevertheless, JetStream shuts down in this process. Every publish fails, Ready fails, and Run returns ErrLost, so
// that the process ends and is started again. A failed sync has the same result, for its whole round: the system forgets the data that it
// could not write, so another sync would succeed without it. So does a stream that a remote server has no longer: Open makes it anew, and
// moves the places of its readers, before anything is accepted.
//
// # Disk
//
// Package embedded syncs the files of the server in this process. These are on disk:
//   - EVENTS and TRIGGERS before a publish returns, so before a 2xx;
//   - DELIVERIES, rescheduled or not, and DEADLETTERS before a publish returns, so before their source message is acknowledged;
//   - bucket object-state before Put returns, so before a transition counts as published;
//   - the configurations of streams and consumers before Open returns, or the next publish.
//
// The worker is handed an event of this process while it is synced, so it may be sent before the 2xx. The event is on disk before anything
// that refers to it: a delivery that waits or is dead, the cursors, and the records of Subscribe, FollowEvents and LastEvent.
//
// HISTORY, removals, consumers' acknowledgements and the leases are not synced: a loss of power then means a duplicate (invariant E3).
// WEBHOOKS is not synced either: the results of the last webhooks are then not listed, and nothing else depends on them.
//
// nats-server 2.15 records no removal of a message that a younger one on its subject replaced or pushed out. After kill -9 and with an index
// that is older than the messages it is there again, unless its subject is still full (issue 8505 of nats-server): a dead letter that was
// discarded may be sent again after all, an older trigger causes one request more, and the state of a deleted object is removed again.
//
// # Duplicates
//
// An ID of EVENTS is recognized within the duplicate window: by the server if it is remote, otherwise by this process, which after a
// restart knows the newest maxLoaded IDs of the window. A round of publishes ends with the server's answers, also if its senders were answered
// with an error before, and the next one begins with their outcome known. If no answer comes within lateAnswer, or the connection is lost,
// only the embedded server recognizes the ID, for serverDuplicates.
//
// EVENTS has two readers, one that routes and one for Receivers of type event, with a cursor each. It is written every 100 ms while it changes,
// with the events that are done behind an open one. So after a kill -9 the open events and those of the last moment are handed out again.
// After a remote server lost the end of EVENTS, so are those that were stored up to browse.MaxSkew before what was read last.
// DELIVERIES drops a message whose ID it has seen in the last two minutes, and at a restart it forgets acknowledged ones. So a record and a
// delivery carry Recheck whenever they may have been handled before, and WasSent reports whether a delivery was sent.
//
// # Order
//
// The records of a namespace are routed in stream order, one call at a time, a failed batch before any younger record. Namespaces do not
// wait for each other's heavy records. Deliveries of one Provider and triggers of one namespace are in one shard and are handed out in
// stream order, except returned ones and those that are taken off the schedule. A new worker starts at the oldest unacknowledged message at
// once: messages that a dead worker had in hand are handed out first, without waiting for event.AckWait.
//
// # Worker
//
// Every replica publishes. One replica, the worker, reads: it routes, subscribes, delivers and applies, and runs the functions given to
// Work. A lease in a bucket decides which replica it is, taken and renewed by compare-and-set; with the embedded server the process is the
// worker at once. The time from taking the lease to losing it is a term. Each consumer has a pinned client as its fence: at the start of a
// term the worker unpins and resets it. So a worker whose term has ended unnoticed is refused. A worker that leaves first drains, and
// another replica takes over well within a second after that. When a worker dies another takes over as soon as its lease was not renewed
// for 3 seconds.
//
// A term counts from when the last renewal was sent. It is over 2.25 seconds later, before another may begin, also when the process was
// stopped meanwhile. The context of a term ends some milliseconds after such a process continues, so stages ask event.Owned right before
// any action that another worker would repeat. Even that is not a lock: a process that is stopped in the middle of a send may finish it
// afterwards, so sends carry IDs. A server that takes up to 1.1 seconds for a renewal does not end a term.
//
// A worker that lost the server, by a reconnection or by some seconds without an answer to a request, takes the consumer over anew in the
// same term, or its place among the events. Messages that were on their way are handed out again at once, without waiting for event.AckWait.
//
// A worker that dies leaves its lease behind, and the next worker counts the crash. After fifty crashes at one place of a consumer the
// messages there are handed out one at a time, each recorded first, so that the message that kills the process is known. After a hundred it
// becomes a dead letter.
//
// # Back-pressure
//
// A stage is handed messages over an unbuffered channel and takes them when it can. At most 256 wait in this process for it, kept from
// being handed out elsewhere; the rest stays on disk. A stage must acknowledge each message it has taken, or call InProgress on it more
// often than every event.AckWait. Of EVENTS at most 8,192 are open (handed out and not done), and 64 MiB wait to be routed. A namespace's
// share of those that wait gets smaller as the others' grow, so that its events delay only that namespace. When three quarters are open, the
// handler is asked to store the oldest elsewhere, so that they need not stay open. At most 4,096 deliveries taken off the schedule are handed
// out at a time in a shard; triggers are bounded by their targets.
//
// Publishing of events, triggers and sent records is a group commit: the messages that arrive during one write share the next one, and both
// of them a sync. Events are written while earlier ones are synced, 512 at most, and share the next sync. A round has at most 128 messages,
// and namespaces take turns. So a caller of a namespace that has few waits for two rounds, with events for three syncs, however many callers
// there are, and never longer than four seconds. On the embedded server a trigger that is on disk and waits for its turn in this process
// covers later ones of the same target and Receiver. These are acknowledged without a write. The server hands a trigger out before it is
// synced, so until then it covers none.
//
// # Reading
//
// Owners are shown the messages that the streams keep of their namespace: lists newest first in pages (ListDeliveries, ListEvents,
// ListWebhooks), single items (FindDelivery, FindEvent, EventAt), and new items (Follow). Any replica answers, from the streams alone;
// package browse documents how a stream is read backwards without an index. Reading has a connection of its own and four turns in a
// process. A page, a search and each request are bounded; the items beyond a page are behind its cursor. Of a namespace with few messages
// among very many others a page costs the time that the server takes to pass over these. That is some 200 ns each, and some milliseconds
// for each block that it does not have in memory.
//
// The namespace is given by the caller alone. Each message's subject is compared with it, and a cursor has places and nothing else.
//
// A message of HISTORY has the fields of each delivery that are shown, but not its text. The text is read from EVENTS by the order, for as
// long as it is there. The time of a sent delivery is the time when its record was stored, so that each stream is in the order of its
// times.
//
// Actions of the worker alone are requested by request and reply, on subjects under notifier.ask, and are answered while its fence holds.
package bus
