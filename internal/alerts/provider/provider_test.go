package provider

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"notifier/internal/alloctest"
	"notifier/internal/event"
)

func TestAddressesInUseAreAccepted(t *testing.T) {
	for _, address := range []string{
		"https://hooks.slack.com/services/T/B/x", "http://mattermost.team-a.svc.cluster.local:8065/hooks/x", "https://user:pw@far.test/x",
		" https://far.test/x?sig=a%2Fb \n", "https://10.0.0.1:8443/", "https://[2001:db8::1]/x", "HTTPS://FAR.TEST./x", "http://web_hook/x",
		"https://1password.test/", "https://4chan", "https://far.test/#fragment",
	} {
		u, err := Network{}.ParseAddress(address, "https", "http")
		if err != nil {
			t.Errorf("%s: %v", address, err)
		} else if u.Fragment != "" {
			t.Errorf("%s: the fragment would be sent to a proxy", address)
		}
	}
}

// Fails when an error contains the text of url.Parse, or a host passes that some reader takes for another address.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{
		"https://far.test/x", "http://127.1/", "http://0x7f.1", "http://[::1%25lo]:80", "https://user:pass@far.test", "http://a..b", "//x", "http://%31",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := Network{}.ParseAddress(s, "https", "http")
		if err != nil {
			if len(s) > 12 && strings.Contains(err.Error(), s) {
				t.Errorf("the error quotes the address: %v", err)
			}
			return
		}
		host := u.Hostname()
		if addr, err := netip.ParseAddr(host); err == nil {
			if (Network{}).check(addr) != nil {
				t.Errorf("%s passed", host)
			}
			return
		}
		last := strings.TrimSuffix(host, ".")
		last = last[strings.LastIndexByte(last, '.')+1:]
		if host == "" || last == "" || strings.Trim(last, "0123456789") == "" {
			t.Errorf("host %q passed", host)
		}
	})
}

func TestUnknownFailuresAreRetriedAndNotQuoted(t *testing.T) {
	err := &url.Error{Op: "Post", URL: "https://far.test/s3cret", Err: fmt.Errorf("token s3cret")}
	got := Classify(err)
	if got.Class != event.Retry || got.Label != LabelOther || strings.Contains(got.Error(), "s3cret") {
		t.Errorf("got class %d, label %s, %q", got.Class, got.Label, got)
	}
	if !errors.Is(got, err) {
		t.Error("the cause is lost")
	}
}

func TestEveryLabelIsListed(t *testing.T) {
	labels := Labels()
	for _, err := range []error{context.Canceled, context.DeadlineExceeded, ErrDenied, errors.New("x")} {
		if l := Classify(err).Label; !slices.Contains(labels, l) {
			t.Errorf("label %q of %v is not listed", l, err)
		}
	}
	for code := 100; code < 600; code++ {
		if l := statusError(code, "", time.Time{}).Label; !slices.Contains(labels, l) {
			t.Errorf("label %q of HTTP %d is not listed", l, code)
		}
	}
	slices.Sort(labels)
	if len(slices.Compact(slices.Clone(labels))) != len(labels) {
		t.Error("a label is listed twice")
	}
}

func TestACancelledSendSaysSo(t *testing.T) {
	c, err := NewClient(Config{Address: "https://far.test"}, ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := event.AsError(c.Post(ctx, Request{})); got.Label != LabelCanceled || got.Class != event.Retry {
		t.Errorf("got class %d, label %s", got.Class, got.Label)
	}
}

func TestFactsBeginWithTheSummaryAndAreBounded(t *testing.T) {
	e := event.Event{Metadata: map[string]string{"b": "2", "summary": "s", "a": "1", "zz": strings.Repeat("ä", 20)}}
	n := Notification{Event: e, Authored: []string{"b", "gone"}}
	want := []Fact{{"summary", "s", false}, {"a", "1", false}, {"b", "2", true}, {"zz", strings.Repeat("ä", 9) + "…", false}}
	if diff := cmp.Diff(want, Facts(n, 10)); diff != "" {
		t.Error(diff)
	}
	for i := range 40 {
		e.Metadata[fmt.Sprintf("k%02d", i)] = "v"
	}
	facts := Facts(n, 10)
	if n := len(facts); n != maxFacts+1 || facts[n-1].Value != "12 more left out" {
		t.Errorf("%d facts, the last %v", n, facts[n-1])
	}
	if facts[0].Name != "summary" {
		t.Errorf("the first fact is %v", facts[0])
	}
}

// Fails when a text of which most is removed is cleaned part by part, each twice as long: 150 ms for a message of 3 MiB, at each size that a
// type tries.
func TestT6WhatIsRemovedOfATextCostsLittle(t *testing.T) {
	for _, removed := range []string{"\u202E", "\xff"} {
		message := strings.Repeat(removed, 3<<20/len(removed))
		if made := alloctest.Bytes(func() { Truncate(message, 300) }); made > uint64(len(message)/8) {
			t.Errorf("%q: %d KiB are allocated for a message of %d KiB", removed, made>>10, len(message)>>10)
		}
	}
}

func FuzzTruncate(f *testing.F) {
	f.Add("a text", 3)
	f.Add("\xff\xfeäö", 2)
	f.Add(strings.Repeat("😀", 200), 100)
	f.Add(strings.Repeat("\u202E", 500)+"text", 3)
	f.Add("\xff\u2066\xff\xff\uFFFD\xfft\u2069\u2070\u202F\u2029", 7)
	f.Add(strings.Repeat("\xff", 500)+strings.Repeat("\x80", 500)+"text", 3)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = 1 + (limit&0x7fffffff)%500
		got := Truncate(s, limit)
		if n := utf8.RuneCountInString(got); n > limit || !utf8.ValidString(got) {
			t.Errorf("%d characters of %d: %q", n, limit, got)
		}
		if whole := strings.Repeat(s, 1+limit%7); Truncate(whole, limit) != truncateWhole(whole, limit) {
			t.Errorf("%q at %d: %q, want %q", whole, limit, Truncate(whole, limit), truncateWhole(whole, limit))
		}
		if valid := reordering.Replace(strings.ToValidUTF8(s, "\uFFFD")); utf8.RuneCountInString(valid) <= limit && got != valid {
			t.Errorf("%q was changed to %q though it fits", s, got)
		}
	})
}

var reordering = strings.NewReplacer(
	"\u202A", "", "\u202B", "", "\u202C", "", "\u202D", "", "\u202E", "", "\u2066", "", "\u2067", "", "\u2068", "", "\u2069", "",
)

// truncateWhole is Truncate in two steps over the whole text.
func truncateWhole(s string, maxRunes int) string {
	if s = reordering.Replace(strings.ToValidUTF8(s, "\uFFFD")); utf8.RuneCountInString(s) <= maxRunes {
		return s
	}
	return cut(s, maxRunes)
}
