package answer

import (
	"net/http"
	"testing"
)

// Fails when a sender that names the character set of its text as its encoding is refused, and when an encoded body is taken for a plain one.
func TestACharacterSetIsNoEncoding(t *testing.T) {
	for name, test := range map[string]struct {
		values []string
		want   bool
	}{
		"none":                        {nil, true},
		"empty":                       {[]string{""}, true},
		"identity":                    {[]string{"identity"}, true},
		"identity in capitals":        {[]string{"Identity"}, true},
		"a character set":             {[]string{"utf-8"}, true},
		"a character set in capitals": {[]string{"UTF-8"}, true},
		"without its hyphen":          {[]string{"utf8"}, true},
		"gzip":                        {[]string{"gzip"}, false},
		"gzip after a character set":  {[]string{"utf-8", "gzip"}, false},
		"both in one":                 {[]string{"utf-8, gzip"}, false},
		"unknown":                     {[]string{"x"}, false},
	} {
		if got := IdentityEncoded(http.Header{"Content-Encoding": test.values}); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}
