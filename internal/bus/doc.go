// Package bus is the one thing between the stages of notifier: five JetStream streams and a few buckets, on a nats-server in
// this process or on a remote one. It is the only user of NATS.
//
// # Loss
//
// A publish returns nil only after the stream's acknowledgement: the message is on disk, with the embedded server fsynced. After
// an error it may or may not be there, and publishing it again does no harm: events and deliveries have identities, a
// trigger replaces an older one of its target. What was published is handed out until it is settled, also over kill -9 of this
// process. What cannot be handled (undecodable, too large, or deadly a hundred times) becomes a dead letter and blocks nobody.
//
// What bounds the streams, and what happens there:
//   - EVENTS keeps 24 hours and Budgets.Events bytes, the oldest go. Publishing is refused with ErrFull when the stream is three
//     quarters full and half of it was not routed yet, or not looked at yet for Receivers of type event, so a flood is answered
//     503 before it pushes out what is owed. The state of the stream is read every two seconds, so a quarter of the budget must
//     outlast what is published meanwhile.
//   - DELIVERIES: Room tells how much of one namespace there is room for, and above half of Budgets.Deliveries that is as many average
//     messages as are free. The deliverer gives up the oldest beyond it. The server cannot refuse here (it allows scheduled messages only
//     on streams that discard old), so the embedded server's total is the last bound: it refuses.
//   - TRIGGERS: one message a target, Budgets.Triggers bytes, beyond which new targets are refused with ErrFull.
//   - DEADLETTERS: 7 days, 1,000 messages a Provider, Budgets.DeadLetters bytes, the oldest go.
//   - HISTORY: 26 hours, 100,000 records (the server keeps some 320 bytes of memory for each), Budgets.History bytes, the oldest go. What went cannot be recognized as sent after a crash.
//
// The bounds are scaled down together to what the disk has room for, but none below what its stream holds and still owes: a data
// directory on a disk that has become smaller opens with all of that.
//
// When the disk fills up all the same, JetStream shuts down in this process: every publish fails, Ready too, and Run returns
// ErrLost so that the process ends and is started again.
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
// starts at the oldest unsettled message at once: what a dead one held comes first, not after its hold time.
//
// # Worker
//
// Every replica publishes. One replica, the worker, reads: routes, subscribes, delivers and applies, and what Work is called with. A lease
// in a bucket decides which, taken and renewed by compare-and-set; with the embedded server the process is the worker at once. The
// time from taking the lease to losing it is a term. Each consumer has a pinned client as its fence: at the start of a term the worker
// unpins and resets it, so that a worker that does not know yet that its term is over is refused. Another replica takes over well within
// a second when the worker has left, which it does after it has drained, and within leaseWait, 3.5 seconds, when it dies.
//
// A term counts from when the last renewal was sent, and is over 2.75 seconds later, before another may begin, also when the
// process was stopped meanwhile. The context of a term ends some milliseconds after such a process goes on, so stages ask event.Owned
// right before anything that another worker would repeat. Even that is not a lock: a process that is stopped in the middle of a send may
// finish it afterwards, so sends carry IDs. A server that takes up to 1.3 seconds for a renewal does not end a term.
//
// A worker that lost the server, by a reconnection or by some seconds without a word for a request, takes the consumer over anew in the
// same term: what was on its way then is handed out again at once, and not when its hold time is over.
//
// A worker that dies leaves its lease behind, and the next one counts. After fifty deaths at one place of a consumer the messages there
// are handed out one at a time and noted first, so that the one that kills the process is known, and after a hundred it is a dead
// letter.
//
// # Back-pressure
//
// A stage is handed messages over an unbuffered channel and takes them when it can. At most 256 wait in this process for it, kept
// from being handed out elsewhere; the rest stays on disk. What a stage has taken it must settle, or call Working on more often
// than event.HoldTime. Of EVENTS at most 8,192 are open, handed out and not done, and 64 MiB wait to be routed; what one namespace has of
// that waits for itself until all of it is used. When three quarters are open the oldest are asked to be put where they need not be open.
// At most 4,096 deliveries that come off the schedule are out at a time in a shard; triggers are bounded by their targets.
//
// Publishing of events, triggers and sent records is a group commit: what arrives during one write shares the next one,
// as an atomic batch with one fsync for its data. So a caller waits for at most two writes, however many callers there are, and
// never longer than four seconds. On the embedded server a trigger that is on disk and waits for its turn in this process
// stands for later ones of the same target and Receiver, which are then acknowledged without a write.
package bus
