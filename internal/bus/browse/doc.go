// Package browse reads what JetStream streams keep backwards, newest first, a bounded page at a time.
//
// JetStream reads forwards only, and has no index from a subject to the messages of it. What it has in memory is, for each subject, how
// many messages there are and in which block of the stream the first one and the last one are, and for a block that was read lately the
// same for its messages. Walker takes the place of an index: it reads a window of the stream below a place, forwards, by requests for the
// next message of a filter, and takes a larger window where messages of the filter are rare. A window is bounded, so that no request
// holds up the stream's writers for longer than it takes to read a few of its blocks.
//
// Pages need nothing that is kept between them: a Cursor has the place in each stream.
package browse
