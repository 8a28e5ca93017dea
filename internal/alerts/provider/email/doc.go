// Package email sends notifications as mail, by submission to a mail server (RFC 6409).
//
// # Configuration
//
// The address is smtps://host (port 465, TLS from the beginning) or smtp://host (port 587, STARTTLS, which is required).
// smtp://host?tls=none uses neither TLS nor a login: no credentials are sent over a connection that anybody can read. The channel
// lists the recipients, as a header would. Username and password log in. The mail is from the address in the query (?from=), or else
// from the username, which then has to be a mail address.
//
// # The mail
//
// A mail has the same content as plain text and as simple HTML, quoted-printable: severity and object, the message, and the metadata.
// All texts of the event are escaped in HTML, except those of the Alert's author. Control characters are left out, so no text becomes
// a line of a header or of a command. The message is cut at 50,000 characters.
//
// All mails about one object have one subject and refer to one identifier that no mail has (RFC 5322, section 3.6.4). So a reader
// shows them as a thread; nothing else resolves. They say that a machine wrote them (RFC 3834), and those about errors that they are
// important.
//
// # Duplicates
//
// The Message-ID is made from the delivery's ID and is the same at every attempt. Many mail servers and readers show two mails of one
// Message-ID as one; others show both.
//
// # Outcome
//
// A send succeeds when the server has accepted the message for all recipients. If one recipient is refused, no message is written at
// all. So no recipient is left out unnoticed, and none gets the message twice. 4xx is retried and 5xx is final (RFC 5321, section
// 4.2.1). The reason names the step of the session and the enhanced status (RFC 3463) if it is a known one. Each mail has a connection
// of its own, as is usual for submission.
//
// # Library
//
// go-mail builds the message and speaks SMTP. It has no dependencies beyond x/crypto and x/text, and it has the logins that mail
// services require. Each command is a call of its own, so the fence is checked between the recipients and the message.
package email
