// Package azureeventhub sends notifications to a hub of Azure Event Hubs: the body is the Event in JSON, as Flux's event API has it,
// with the Alert's metadata merged.
//
// # Login
//
// An address with SharedAccessKey in it is a connection string, whose key signs a shared access signature for each send; the hub is its
// EntityPath, else the channel. Any other address is the name of a hub whose namespace is the channel, in the cloud that
// AZURE_AUTHORITY_HOST tells where the namespace is not fully qualified; a token is then sent as it is, which is deprecated since it
// ends within the hour, or else the workload identity of Config.ServiceAccount logs in (package cloudauth). Two logins at once are an
// error.
//
// # The message
//
// The broker's properties name the delivery's ID as the message's, by which consumers can drop a duplicate: Event Hubs itself drops
// none. The partition key is made from the object, so that the events of one object stay in order. The event's text is cut where it
// would be more than the smallest tier takes. Nothing resolves.
//
// # Library
//
// Azure's library speaks AMQP, with connections, links and retries of its own, past the HTTP client's guard and proxy. This is the REST
// operation "Send event".
package azureeventhub
