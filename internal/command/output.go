package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"sigs.k8s.io/yaml"
)

// The forms of the output.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	// formatName is for lists: the IDs, one a line.
	formatName = "name"
)

var formats = []string{formatTable, formatWide, formatJSON, formatYAML}

// write writes a result for a program.
func (s *session) write(result any) error {
	document, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	text := append(escaped(document, jsonEscape), '\n')
	if s.format == formatYAML {
		if text, err = inYAML(document); err != nil {
			return fmt.Errorf("write result: %w", err)
		}
	}
	_, err = s.out.Write(text)
	return err
}

// inYAML returns a JSON document in YAML. A document with characters that control a terminal stays in the form of JSON, which is
// also YAML, since YAML's own form leaves some of these characters unescaped.
func inYAML(document []byte) ([]byte, error) {
	document = append(escaped(document, yamlEscape), '\n')
	text, err := yaml.JSONToYAML(document)
	if err == nil && bytes.IndexFunc(text, func(r rune) bool { return r != '\n' && controls(r) }) >= 0 {
		return document, nil
	}
	return text, err
}

// escaped returns a JSON document with escapes for the characters that control a terminal. Outside of texts a document has none but
// line feeds.
func escaped(document []byte, escape func(rune) string) []byte {
	var b bytes.Buffer
	for _, r := range string(document) {
		if r == '\n' || !controls(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(escape(r))
	}
	return b.Bytes()
}

// jsonEscape returns the escape of a character by RFC 8259, section 7: one or two units of UTF-16.
func jsonEscape(r rune) (text string) {
	for _, unit := range utf16.AppendRune(nil, r) {
		text += fmt.Sprintf(`\u%04x`, unit)
	}
	return text
}

// yamlEscape returns the escape of a character by YAML 1.2, section 5.7, which has no pairs of units.
func yamlEscape(r rune) string { return fmt.Sprintf(`\U%08x`, r) }

// column is one column of a table of items.
type column[T any] struct {
	name string
	wide bool
	of   func(T) string
}

// table writes items in columns. The first line names the columns, unless head is false.
func table[T any](w io.Writer, columns []column[T], items []T, head bool) error {
	tw := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	line := func(cell func(column[T]) string) {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = cell(c)
		}
		_, _ = io.WriteString(tw, strings.Join(cells, "\t")+"\n") // the writer keeps the error for Flush
	}
	if head {
		line(func(c column[T]) string { return c.name })
	}
	for _, item := range items {
		line(func(c column[T]) string { return cmp.Or(plain(c.of(item)), "-") })
	}
	return tw.Flush()
}

// controls reports whether a character controls a terminal: a control character, the end of a line, or a character of the category
// Cf, which reorders or hides text.
func controls(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
}

// shown is an error in the form for a terminal: it may quote an answer of the API.
type shown struct{ error }

func (s shown) Error() string { return plain(s.error.Error()) }
func (s shown) Unwrap() error { return s.error }

// plain returns text on one line that controls no terminal. It replaces each character that does, and each run of white space, by
// one space.
func plain(text string) string {
	clean := strings.Map(func(r rune) rune {
		if controls(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	return strings.Join(strings.Fields(clean), " ")
}

// maxCell bounds a free text in a table, in characters.
const maxCell = 60

// short cuts a free text for a table.
func short(text string) string {
	r := []rune(plain(text))
	if len(r) <= maxCell {
		return string(r)
	}
	return string(r[:maxCell-1]) + "…"
}

// age returns the time since t in the largest unit that gives at least 2, in the form of kubectl. It is 0s for a time that is still to come
// by this machine's clock, as right after an event where the clocks differ.
func age(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := max(now.Sub(t), 0)
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d >= 2*u.unit {
			return fmt.Sprintf("%d%s", d/u.unit, u.name)
		}
	}
	return fmt.Sprintf("%ds", int(d.Seconds()))
}
