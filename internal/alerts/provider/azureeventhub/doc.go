// Package azureeventhub sends notifications to a hub of Azure Event Hubs: the body is the Event in JSON, as Flux's event API has it,
// with the Alert's metadata merged.
//
// # Login
//
// An address that contains SharedAccessKey is a connection string, whose key signs a shared access signature for each send. The hub is
// its EntityPath, or else the channel.
//
// Any other address is the name of a hub, and the channel is its namespace. A namespace that is not fully qualified is in the cloud of
// AZURE_AUTHORITY_HOST. A token is then sent unchanged, which is deprecated since it expires within the hour. Without a token the
// workload identity of Config.ServiceAccount logs in (package cloudauth). Two logins at once are an error.
//
// # The message
//
// The broker's properties name the delivery's ID as the message's, by which consumers can drop a duplicate: Event Hubs itself drops
// none. The partition key is made from the object, so that the events of one object stay in order. The event's text is cut if it is
// longer than the smallest tier takes. Nothing resolves.
//
// # Library
//
// Azure's library speaks AMQP, with connections, links and retries of its own, and bypasses the HTTP client's checks and proxy. This
// package uses the REST operation "Send event".
package azureeventhub
