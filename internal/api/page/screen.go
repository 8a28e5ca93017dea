package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"time"
	"unicode"
	"unicode/utf8"
)

//go:embed templates static
var files embed.FS

// screen is one page as its template is given it.
type screen struct {
	template string
	status   int
	// redirect, where it is set, is the address to go to instead.
	redirect string

	Title string
	// Section is the tab that the page belongs to, empty outside a namespace.
	Section string
	// Watch is the address of the stream that says when something on the page is new, empty where nothing will be.
	Watch  string
	Notice *notice
	Body   any

	User, Namespace string
	Now             time.Time
	Assets          map[string]string
}

// notice says what became of what the user asked for.
type notice struct {
	// Failed says that all or some of it was not done.
	Failed bool
	Text   string
	Lines  []string
	// Link leads to the outcome.
	Link, Label string
}

// problem is the body of a page that cannot be shown.
type problem struct{ Head, Text string }

// tab is one page of a namespace.
type tab struct{ Section, Label, Link string }

// Tabs are the pages of the namespace.
func (s *screen) Tabs() []tab {
	if s.Section == "" {
		return nil
	}
	return []tab{
		{"deliveries", "Deliveries", in(s.Namespace, "deliveries")},
		{"events", "Events", in(s.Namespace, "events")},
		{"webhooks", "Webhooks", in(s.Namespace, "webhooks")},
		{"health", "Health", in(s.Namespace, "health")},
	}
}

// templates are the pages by name, each within the layout.
var templates = parse("signin", "problem", "namespaces", "deliveries", "delivery", "events", "event", "webhooks", "health")

func parse(names ...string) map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(template.FuncMap{
		"at": at, "clip": clip, "in": in, "millis": millis, "label": label, "state": state, "tone": tone,
	}).ParseFS(files, "templates/layout.html", "templates/parts.html"))
	all := map[string]*template.Template{}
	for _, name := range names {
		all[name] = template.Must(template.Must(layout.Clone()).ParseFS(files, "templates/"+name+".html"))
	}
	return all
}

// assets are the style sheet, the script and the icon, by file, and assetURLs their addresses, which have the digest of the content.
var assets, assetURLs = readAssets()

func readAssets() (contents map[string][]byte, urls map[string]string) {
	contents, urls = map[string][]byte{}, map[string]string{}
	entries, err := files.ReadDir("static")
	for _, e := range entries {
		content, e1 := files.ReadFile(path.Join("static", e.Name()))
		err = errors.Join(err, e1)
		sum := sha256.Sum256(content)
		contents[e.Name()], urls[e.Name()] = content, "/static/"+e.Name()+"?v="+hex.EncodeToString(sum[:8])
	}
	if err != nil {
		panic(err) // they are embedded
	}
	return contents, urls
}

// asset serves one file. It is kept by the browser only under the address of its own content: beside a replica of another version, the
// same file may have another one.
func asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	content, ok := assets[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.URL.RequestURI() == assetURLs[name] {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}

// labels are how words of the API are called on the page, where that is not the word itself.
var labels = map[string]string{"post": "posted by its controller", "watch": "found in the object's state"}

// label is how a word of the API is called on the page.
func label(word any) string {
	s := fmt.Sprint(word)
	if l, ok := labels[s]; ok {
		s = l
	}
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// tones are the colours of words that are shown as chips, calm where there is none.
var tones = map[string]string{
	"sent": "good", "ready": "good", "accepted": "good", "pending": "wait", "degraded": "wait", "dead": "bad", "not ready": "bad", "error": "bad",
	"unauthentic": "bad", "failed": "bad",
}

// tone is the colour of a word that is shown as a chip.
func tone(word any) string {
	if t, ok := tones[fmt.Sprint(word)]; ok {
		return t
	}
	return "calm"
}
