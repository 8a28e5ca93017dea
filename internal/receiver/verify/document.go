package verify

import (
	"bytes"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// jsonDocument returns the whole body if the sender declares it as JSON, else nil. It does not check that the body is
// JSON.
func jsonDocument(h http.Header, body []byte) []byte {
	if isJSON(h.Get("Content-Type")) {
		return body
	}
	return nil
}

// isJSON reports whether a content type is application/json, or one built on JSON, such as application/cloudevents+json.
// Only the type counts: a parameter that cannot be read is ignored.
func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, _, _ := mime.ParseMediaType(contentType)
	return media == "application/json" || strings.HasSuffix(media, "+json") && strings.Contains(media, "/")
}

// maxFields bounds the fields of a form that are read. GitHub's form has one. To decode all names in 3 MiB would take half a
// second.
const maxFields = 16

// formField returns the first value of a field of a form, nil for none.
func formField(form []byte, name string) []byte {
	for range maxFields {
		var field []byte
		field, form, _ = bytes.Cut(form, []byte("&"))
		key, value, _ := bytes.Cut(field, []byte("="))
		if plain, err := url.QueryUnescape(string(key)); err != nil || plain != name {
			continue
		}
		plain, err := url.QueryUnescape(string(value))
		if err != nil {
			return nil
		}
		return []byte(plain)
	}
	return nil
}
