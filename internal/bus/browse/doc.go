// Package browse reads the messages of JetStream streams backwards, newest first, a bounded page at a time.
//
// JetStream reads forwards only, and has no index from a subject to its messages. In memory it has, for each subject, the number of
// messages and the blocks of the first one and the last one. For a block that was read lately it has the same for its messages. Walker
// takes the place of an index. It reads a window of the stream below a place, forwards, by requests for the next message of a filter, and
// takes a larger window where messages of the filter are rare. A window is bounded, so that no request delays the stream's writers for
// longer than it takes to read a few of its blocks.
//
// No state is kept between pages: a cursor has the place in each stream.
package browse
