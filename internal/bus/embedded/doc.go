// Package embedded runs a nats-server within this process, and has the messages of its streams on disk when it is told to.
//
// The server runs without SyncAlways, which syncs each message and each removal under the stream's lock. It has no group sync of its own.
// sync_interval is a background sync every two minutes, persist mode "async" acknowledges before a message is written, and an atomic batch
// is staged in a store of its own, at about seven syncs. So this package syncs the server's files itself: a caller of Sync waits for the
// round that begins after its call, which is one sync for all that wait.
//
// The server (v2.15.3, without encryption and compression) stores a stream under jetstream/$G/streams/NAME: meta.inf and meta.sum, a
// directory obs with one for each consumer, and a directory msgs.
//   - msgs/N.blk are the blocks. A message and a removal's tombstone are appended to the block of the greatest N and written to the file
//     before the acknowledgement is sent; nothing is buffered in the process. When a block is full (4 or 8 MB, 32 kB of a very small
//     stream), or when its last message was removed, the server opens a file of a greater number. It never writes to the previous one
//     again.
//   - A block without messages is removed. A block of which more than half was removed is rewritten to N.new and renamed, at a removal or
//     every sync_interval. Both are done without a sync.
//   - index.db, sched.db and thw.db are caches. They are written every two minutes and at the end, checked when they are read, and rebuilt
//     from the blocks. o.dat has the acknowledgements of a consumer, up to 250 ms old. It is not synced. The server makes no consumer beside
//     one that it cannot read, so Start removes the files of such a consumer.
//
// A round of syncer syncs the blocks that may have been written to since their last sync, then the directory. A block that is removed or
// replaced was synced, but its replacement was not. So guard keeps a second link to it under synced/NAME, until a round that began after the
// removal is over. When Start finds that the machine was restarted (another boot ID) it puts these blocks back. Messages that were removed in
// the meantime then exist again. A round captures its blocks by such links before it syncs them, since the server may remove any of them
// meanwhile, and syncs the directory of the links before it ends. No order is expected of the file system between names and contents, or
// between the names of two directories.
//
// A loss of power may lose a message that the server itself moves off the schedule: both the message and its place on the schedule. That
// needs a file system that writes the newer of two blocks first, in the milliseconds between two rounds. Otherwise a scheduled message that
// fires is in the block before its tombstone, and a block is read up to its first damaged record.
package embedded
