// Package msteams sends notifications to Microsoft Teams: as a MessageCard to a connector (a host that ends in .webhook.office.com),
// else as an Adaptive Card 1.4, which workflows expect.
//
// # Text
//
// All texts of an event are data in the card's JSON, never part of its structure. A MessageCard is shown as HTML and Markdown, so &, <
// and > are escaped in it; an Adaptive Card has no HTML. In both a Markdown link is broken, so that no text of an event hides an
// address behind a label; plain URLs stay links. Neither card can mention a person by its text alone. The rest of Teams' Markdown, bold,
// italic and lists, takes effect. In an Adaptive Card a single line break is a space, so each of an event's is doubled.
//
// # Limits
//
// Teams refuses messages beyond about 28 KB. So a longer message is cut, and then its facts, until the card fits.
//
// A connector answers 200 even if Teams refuses the message behind it, above all at its rate limit. The answer's text then names the
// status of Teams, by which the message is sent again or given up.
package msteams
