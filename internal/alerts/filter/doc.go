// Package filter decides by the regular expressions of an Alert, its inclusionList and its exclusionList, whether the Alert takes an event's
// message.
//
// The expressions are tenant input, and a few goroutines match those of all tenants. They are bounded when they are compiled (Compile) and
// timed when they run (Budget). A message costs at most messageTime, a namespace at most its share of a window, and all namespaces together
// at most half of it. A match that is cut short lets the message pass: an unfiltered notification is better than a lost one.
package filter
