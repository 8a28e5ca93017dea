package browser

import (
	"flag"
	"path/filepath"
	"testing"
)

// update makes the test take new pictures of the documentation.
var update = flag.Bool("update", false, "write the pictures in docs/images")

// TestThePicturesOfTheDocumentation takes them with -update, and fails when one cannot be taken. Its file makes it run
// first, before other tests add data that is not for pictures.
func TestThePicturesOfTheDocumentation(t *testing.T) {
	s, b := at(t), newTab(t)
	dir := t.TempDir()
	if *update {
		dir = filepath.Join("..", "..", "docs", "images")
	}
	in := s.url + "/ns/" + s.a.namespace
	for _, p := range []struct {
		name, address, scheme string
		width                 int64
	}{
		{"page-deliveries", in + "/deliveries", "light", 1100},
		{"page-delivery", s.url + s.first(b, "deliveries?state=dead"), "light", 1100},
		{"page-delivery-dark", s.url + s.first(b, "deliveries?state=dead"), "dark", 1100},
		{"page-explain", s.url + s.first(b, "events"), "light", 1100},
		{"page-health", in + "/health", "light", 1100},
		{"page-phone", in + "/deliveries", "light", 360},
	} {
		b.look(p.scheme, p.width)
		b.signIn(p.address, s.a.token)
		b.wait(`!document.querySelector("[data-live]") || document.querySelector(".live.on")`)
		b.picture(filepath.Join(dir, p.name+".png"))
	}
}
