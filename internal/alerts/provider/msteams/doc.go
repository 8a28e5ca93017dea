// Package msteams sends notifications to Microsoft Teams: as a MessageCard to a connector (a host that ends in
// .webhook.office.com), else as an Adaptive Card 1.4, which is what a workflow expects.
//
// # Text
//
// Everything from an event is data in the card's JSON, never part of its structure. A MessageCard is shown as HTML and
// Markdown, so &, < and > are escaped in it; an Adaptive Card knows no HTML. In both a Markdown link is broken up, so that no text
// of an event hides an address behind a label; plain URLs stay links. Neither card can mention a person by its text alone.
//
// Teams refuses messages beyond about 28 KB, so a longer message is cut, and then its facts, until the card fits.
package msteams
