// Package email sends notifications as mail, by submission to a mail server (RFC 6409).
//
// # Configuration
//
// The address is smtps://host (port 465, TLS from the beginning) or smtp://host (port 587, STARTTLS, which is required).
// smtp://host?tls=none goes without TLS, and then without a login: no credentials are sent over a connection that anybody can read. The
// channel lists the recipients, as a header would. Username and password log in. The mail is from the address that the query names
// (?from=), else from the username, which then has to be a mail address.
//
// # The mail
//
// Plain text and simple HTML, quoted-printable, the same twice: severity and object, the message, and the metadata. Everything from the
// event is escaped in HTML, but what the Alert's author wrote; control characters are left out, so no line of a header or of a command
// can be made. The message is cut at 50,000 characters.
//
// All mails about one object have one subject and refer to one identifier that no mail has (RFC 5322, section 3.6.4), so that a reader
// shows them as a thread; nothing else resolves. They say that a machine wrote them (RFC 3834), and those about errors that they are
// important.
//
// # Duplicates
//
// The Message-ID is made from the delivery's ID and the same at every attempt. Many mail servers and readers show two mails of one
// Message-ID as one; others show both.
//
// # Outcome
//
// A send has succeeded when the server has taken the message for all recipients. One whose recipient is refused writes no message at
// all, so that nobody is left out without a word and nobody gets it twice. 4xx is retried and 5xx is final (RFC 5321, section 4.2.1),
// told with the command's name and the enhanced status (RFC 3463) if it is a known one. Each mail has a connection of its own, as
// submission has it.
//
// # Library
//
// go-mail builds the message and speaks SMTP: it has no dependencies beyond x/crypto and x/text, has the logins that mail services want,
// and lets each command be given by itself, so that the fence is asked between the recipients and the message.
package email
