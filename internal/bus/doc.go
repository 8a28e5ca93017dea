// Package bus is the one thing between the stages of notifier: six JetStream streams and a few buckets, on a nats-server in
// this process or on a remote one. With package browse
// below it, it is the only user of NATS.
//
// # Loss
//
// A publish returns nil only after the stream's acknowledgement, and with the embedded server after a sync of what it wrote (see Disk). A
// remote server is believed for what it acknowledges. After an error the message may or may not be there, and publishing it again does no
// harm: events and deliveries have identities, a trigger replaces an older one of its target. What was published is handed out until it is
// acknowledged, also over kill -9 of this process. What cannot be handled (undecodable, too large, or deadly a hundred times) becomes a
// dead letter and blocks nobody.
//
// What bounds the streams, and what happens there:
//   - EVENTS keeps 24 hours and Budgets.Events bytes, the oldest go. Publishing is refused with ErrFull when the stream is three
//     quarters full and half of it was not routed yet, or not looked at yet for Receivers of type event, so a flood is answered
//     503 before it pushes out what is owed. The state of the stream is read every two seconds, so a quarter of the budget must
//     outlast what is published meanwhile.
//   - DELIVERIES: Quota tells how much of one namespace there is room for, and above half of Budgets.Deliveries that is as many average
//     messages as are free. The deliverer gives up the oldest beyond it. The server cannot refuse here (it allows scheduled messages only
//     on streams that discard old), so the embedded server's total is the last bound: it refuses.
//   - TRIGGERS: one message a target, Budgets.Triggers bytes, beyond which new targets are refused with ErrFull.
//   - DEADLETTERS: 7 days, Options.DeadPerProvider messages a Provider, Budgets.DeadLetters bytes, the oldest go.
//   - HISTORY: Options.HistoryAge, Budgets.History bytes, the oldest go. This process remembers the 100,000 to 200,000 deliveries sent last, in
//     memory; of its last 15 minutes a worker reads them from HISTORY when its term begins. What is not remembered is not recognized.
//   - WEBHOOKS: 24 hours, 2,880 messages a Receiver, Budgets.Webhooks bytes, the oldest go. Of one namespace RecordWebhooks takes a
//     sixteenth of these bytes at once and one more a day, and refuses what is beyond with ErrFull.
//
// The bounds are scaled down together to what the disk has room for, but none below what its stream holds and still owes: a data
// directory on a disk that has become smaller opens with all of that.
//
// When the disk fills up all the same, JetStream shuts down in this process: every publish fails, Ready too, and Run returns
// ErrLost so that the process ends and is started again. A sync that fails has the same end, for its whole round: the system forgets what
// it could not write, so another sync would succeed without it.
//
// # Disk
//
// The embedded server runs without SyncAlways, which syncs each message and each removal under the stream's lock. It has no group sync of
// its own: sync_interval is a background sync every two minutes, persist mode "async" acknowledges before anything is written, and an
// atomic batch is staged in a store of its own, at seven syncs or so. So this process syncs the server's files itself. On disk are:
//   - EVENTS and TRIGGERS before a publish returns, so before a 2xx;
//   - DELIVERIES, rescheduled or not, and DEADLETTERS before a publish returns, so before what they come from is acknowledged;
//   - bucket object-state before Put returns, so before a transition counts as published;
//   - the configurations of streams and consumers before Open returns, or the next publish.
//
// HISTORY, removals, what consumers have acknowledged and the leases are not synced: a loss of power then means a duplicate (invariant E3).
// WEBHOOKS is not synced either: what became of the last webhooks is then not listed, and nothing else depends on it.
//
// The server (v2.15.2, without encryption and compression) stores a stream under jetstream/$G/streams/NAME: meta.inf and meta.sum, a
// directory obs with one for each consumer, and a directory msgs.
//   - msgs/N.blk are the blocks. A message and a removal's tombstone are appended to the block of the greatest N and written to the file
//     before the acknowledgement is sent; nothing is buffered in the process. When a block is full (4 or 8 MB, 32 kB of a very small stream),
//     or when its last message was removed, the server opens a file of a greater number, and never writes to the one before again.
//   - A block without messages is removed; a block of which more than half was removed is rewritten to N.new and renamed, at a removal or
//     every sync_interval, both without a sync.
//   - index.db, sched.db and thw.db are caches. They are written every two minutes and at the end, checked when they are read, and
//     made anew from the blocks. o.dat is what a consumer has acknowledged, up to 250 ms old.
//
// A round of syncer syncs the blocks that may have been written to since they were last synced, then the directory. A block that is removed or
// replaced has been synced, but what replaces it has not, so guard keeps a second link to it under synced/NAME until the next round is over.
// When Open finds that the machine was restarted (another boot ID) it puts these blocks back. Messages that were removed in the
// meantime are there again then. The link is made after the block's sync, without a sync of its own: file systems keep the order of
// changes of names.
//
// What the server does on its own, a message that comes off the schedule, may be lost with its place on the schedule when power is lost, if
// the file system writes the newer of two blocks first in the milliseconds between two rounds. A scheduled message that fires is otherwise
// in the block before its tombstone, and a block is read up to its first damaged record.
//
// # Duplicates
//
// EVENTS answers for an ID it has seen within the duplicate window, also after kill -9. The cursor of its reader is written every 100 ms, so
// after a kill -9 what was done last comes again. DELIVERIES drops what has an ID that it has seen in the last two minutes, and forgets at a
// restart what was settled. So a record and a delivery carry Recheck whenever they may have been handled before, and WasSent tells.
//
// # Order
//
// The records of a namespace come to route in stream order, one call at a time, a failed batch before anything younger. Namespaces do not
// wait for each other's records that are heavy. Deliveries of one Provider and triggers of one
// namespace are in one shard and come in stream order, but for those that were returned or come off the schedule. A new worker
// starts at the oldest unsettled message at once: what a dead one held comes first, not after event.AckWait.
//
// # Worker
//
// Every replica publishes. One replica, the worker, reads: routes, subscribes, delivers and applies, and what Work is called with. A lease
// in a bucket decides which, taken and renewed by compare-and-set; with the embedded server the process is the worker at once. The
// time from taking the lease to losing it is a term. Each consumer has a pinned client as its fence: at the start of a term the worker
// unpins and resets it, so that a worker that does not know yet that its term is over is refused. Another replica takes over well within
// a second when the worker has left, which it does after it has drained, and within leaseWait, 3 seconds, when it dies.
//
// A term counts from when the last renewal was sent, and is over 2.25 seconds later, before another may begin, also when the
// process was stopped meanwhile. The context of a term ends some milliseconds after such a process goes on, so stages ask event.Owned
// right before anything that another worker would repeat. Even that is not a lock: a process that is stopped in the middle of a send may
// finish it afterwards, so sends carry IDs. A server that takes up to 1.1 seconds for a renewal does not end a term.
//
// A worker that lost the server, by a reconnection or by some seconds without a word for a request, takes the consumer over anew in the
// same term: what was on its way then is handed out again at once, and not after event.AckWait.
//
// A worker that dies leaves its lease behind, and the next one counts. After fifty crashes at one place of a consumer the messages there
// are handed out one at a time and noted first, so that the one that kills the process is known, and after a hundred it is a dead
// letter.
//
// # Back-pressure
//
// A stage is handed messages over an unbuffered channel and takes them when it can. At most 256 wait in this process for it, kept
// from being handed out elsewhere; the rest stays on disk. What a stage has taken it must acknowledge, or call InProgress on more often
// than event.AckWait. Of EVENTS at most 8,192 are open, handed out and not done, and 64 MiB wait to be routed; what one namespace has of
// that waits for itself until all of it is used. When three quarters are open the oldest are asked to be put where they need not be open.
// At most 4,096 deliveries that come off the schedule are out at a time in a shard; triggers are bounded by their targets.
//
// Publishing of events, triggers and sent records is a group commit: what arrives during one write shares the next one, and both of them a
// sync. A round has at most 128 messages, and namespaces take turns: a caller of a namespace that has few waits for two rounds, however
// many callers there are, and never longer than four seconds. On the embedded server a trigger that is on disk and waits for its turn in this process
// stands for later ones of the same target and Receiver, which are then acknowledged without a write. The server hands a trigger out before it is
// synced, so until then it stands for none.
//
// # Reading
//
// Owners are shown what the streams keep of their namespace: lists newest first in pages (ListDeliveries, ListEvents, ListWebhooks), single
// things (FindDelivery, FindEvent, EventAt), and what is new (Follow). Any replica answers, from the streams alone: package browse says how
// a stream is read backwards without an index. Reading has a connection of its own and four turns in a process, and a page, a search and
// each request are bounded; what a page does not reach is behind its cursor. Of a namespace with few messages among very many others a
// page costs what the server takes to pass over these, some 200 ns each, and some milliseconds for each block that it has not in memory.
//
// The namespace comes from the caller alone. Each message's subject is compared with it, and a cursor has places and nothing else.
//
// A message of HISTORY has what is shown of each delivery, but not its text: that is taken from EVENTS by the order, for as long as it is
// there. The time of what was sent is when its record was stored, so that each stream is in the order of its times.
//
// What the worker alone does is asked for by request and reply, on subjects under notifier.ask, and is answered while its fence holds.
package bus
