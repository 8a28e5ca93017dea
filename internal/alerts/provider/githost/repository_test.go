package githost

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryFormOfARepositorysAddressIsRead(t *testing.T) {
	for address, want := range map[string]Repository{
		"https://github.com/o/r":                  {"https", "github.com", "o/r"},
		" https://GitHub.com/o/r.git/ ":           {"https", "github.com", "o/r"},
		"https://github.com/o/r.git":              {"https", "github.com", "o/r"},
		"http://git.test:3000/o/r":                {"http", "git.test:3000", "o/r"},
		"https://user:pass@git.test/o/r?x=1#frag": {"https", "git.test", "o/r"},
		"ssh://git@git.test:2222/o/r.git":         {"https", "git.test", "o/r"},
		"ssh://git@[::1]:2222/o/r.git":            {"https", "[::1]", "o/r"},
		"git+ssh://git@git.test/o/r":              {"https", "git.test", "o/r"},
		"git://github.com/o/r.git":                {"https", "github.com", "o/r"},
		"git://git.test:9418/o/r":                 {"https", "git.test", "o/r"},
		"git@github.com:o/r.git":                  {"https", "github.com", "o/r"},
		"github.com:/o/r":                         {"https", "github.com", "o/r"},
		"git@gitlab.com:a/b/c/d.git":              {"https", "gitlab.com", "a/b/c/d"},
		"https://gitlab.com/1234":                 {"https", "gitlab.com", "1234"},
		"https://git.test/bb/scm/~u/a%20b.git":    {"https", "git.test", "bb/scm/~u/a b"},
	} {
		got, err := ParseRepository(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", address, diff)
		}
	}
}

// Fails when a path that leads elsewhere in the host's API is accepted, or when an error quotes the address.
func TestAnInvalidRepositoryAddressIsRefusedWithoutQuotingIt(t *testing.T) {
	for _, address := range []string{
		"", " ", "https://s3cret.test", "https://s3cret.test/", "https:///s3cret/r", "s3cret/r", "file:///s3cret/r", "ftp://s3cret/o/r",
		"https://git.test/s3cret/../r", "https://git.test/s3cret/%2e%2e", "https://git.test/s3cret//r", "https://git.test/s3cret/.git",
		"https://git.test/s3cret/a%0ab", "https://git.test/s3cret/%ff", "https://git.test/s3cret/\x00", "https://s3cret:p@[::1/o/r",
		"mailto:s3cret@x", "https://git.test/" + strings.Repeat("s3cret/", 300),
	} {
		if got, err := ParseRepository(address); err == nil {
			if address != "mailto:s3cret@x" { // Git's own form: host mailto
				t.Errorf("%q: got %+v, want an error", address, got)
			}
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: the error quotes it: %v", address, err)
		}
	}
}

func TestOnlyAPathOfTwoPartsHasOwnerAndName(t *testing.T) {
	for path, ok := range map[string]bool{"o/r": true, "o": false, "a/b/c": false} {
		owner, name, err := Repository{Path: path}.OwnerAndName()
		if (err == nil) != ok || ok && owner+"/"+name != path {
			t.Errorf("%s: got %q, %q, %v", path, owner, name, err)
		}
	}
}
