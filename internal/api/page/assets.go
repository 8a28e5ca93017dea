package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"net/http"
	"time"
)

//go:embed static
var files embed.FS

// assets are the style sheet, the script and the icon, by file. assetURLs are their addresses, which have the digest of the
// content.
var assets, assetURLs = readAssets()

func readAssets() (contents map[string][]byte, urls map[string]address) {
	contents, urls = map[string][]byte{}, map[string]address{}
	entries, err := files.ReadDir("static")
	for _, e := range entries {
		content, e1 := files.ReadFile("static/" + e.Name())
		err = errors.Join(err, e1)
		sum := sha256.Sum256(content)
		contents[e.Name()], urls[e.Name()] = content, file(e.Name(), hex.EncodeToString(sum[:8]))
	}
	if err != nil {
		panic(err) // the files are embedded
	}
	return contents, urls
}

// asset serves one file. The browser may store it only under the address with the digest of its content: a replica of another
// version may have a different file of that name.
func asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	content, ok := assets[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.URL.RequestURI() == string(assetURLs[name]) {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}
