package githost

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

func TestAnEventsTextHasNoMeaningToTheHost(t *testing.T) {
	const z = noWidth
	for text, want := range map[string]string{
		"@root and @team/x":              "@" + z + "root and @" + z + "team/x",
		"main@sha1:abc":                  "main@sha1:abc",
		"_@root":                         `\_@` + z + "root",
		"fixes #12, o/r#3, GH-4":         `fixes \#` + z + `12, o/r\#` + z + "3, GH-" + z + "4",
		"!1 ~bug %v1 $2 &3 *x [y":        `\!` + z + `1 \~` + z + `bug %` + z + `v1 \$` + z + `2 \&` + z + `3 \*` + z + `x \[` + z + "y",
		"[l](https://x.test) ![i](y)":    `\[` + z + `l\](https://x.test) \!` + z + `\[` + z + `i\](y)`,
		"<script> <!-- --> &lt;":         `\<script\> \<\!-- --\> \&` + z + "lt;",
		"`code` **b** _i_ ~~s~~ | \\":    "\\`code\\` \\*\\*" + z + "b\\*\\* \\_i\\_ \\~\\~" + z + "s\\~\\~ \\| \\\\",
		"/close":                         z + "/close",
		"a\n  /merge":                    "a  \n\u00A0\u00A0" + z + "/merge",
		"- a\n+ b\n1. c\n2) d\n===\n# e": "\\- a  \n\\+ b  \n1\\. c  \n2\\) d  \n\\===  \n\\# e",
		"    code\n\tcode":               "\u00A0\u00A0\u00A0\u00A0code  \n\u00A0\u00A0\u00A0\u00A0code",
		"a\r\nb\rc\n\nd":                 "a  \nb  \nc  \n  \nd",
		"see https://x.test/a_b?c=d.":    "see https://x.test/a_b?c=d.",
		"https://x.test/@root`":          "https://x.test/@" + z + "root\\`",
		"a\x00b\u202ec\u2028d\xff":       "a b c d\uFFFD",
		":--\n\"https://x.test/_b_":      "\\:--  \n\"https://x.test/\\_b\\_",
		"/":                              z + "/",
		"7":                              "7",
		"":                               "",
	} {
		if got := escape(text); got != want {
			t.Errorf("%q:\n got %q\nwant %q", text, got, want)
		}
	}
}

func TestTheMarkIsThatOfFlux(t *testing.T) {
	o := apps("info", "").Event.InvolvedObject
	if got := markerOf(PullRequestKey, "0c9c2e41-d2f9", o); got != "<!-- flux-pr-comment-key:0c9c2e41-d2f9/Kustomization/team-a/apps -->" {
		t.Error(got)
	}
	o.Name = "a-->\n<b>@x"
	if got := markerOf(MergeRequestKey, "u", o); got != "<!-- flux-mr-comment-key:u/Kustomization/team-a/a--%3e%0a%3cb%3e%40x -->" {
		t.Error(got)
	}
}

func TestTheBodyIsThatOfFlux(t *testing.T) {
	n := bad
	n.Event.Message = "health check failed\n@root"
	n.Event.Metadata = map[string]string{"revision": "main@sha1:abc", "change_request": "7", "summary": "**mine** @ops", "a`b": "**theirs**\n# x"}
	n.Authored = []string{"summary"}
	want := "M\n\n## Flux Status\n\n⚠️ Kustomization/team-a/apps\n\nhealth check failed  \n@\u200Broot\n\nMetadata:\n" +
		"* `a'b`: \\*\\*\u200Btheirs\\*\\* \\# x\n* `revision`: main@sha1:abc\n* `summary`: **mine** @ops\n"
	if got := textOf("M", n); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	n.Event.Metadata = nil
	n.Event.Severity = event.SeverityInfo
	if got := textOf("M", n); got != "M\n\n## Flux Status\n\nℹ️ Kustomization/team-a/apps\n\nhealth check failed  \n@\u200Broot" {
		t.Errorf("without metadata: %q", got)
	}
}

// Fails when the length of a body is unbounded, or when the cut halves an escape or a character.
func TestTheWorstTextStillFits(t *testing.T) {
	for _, r := range []string{"x", "[", "@a ", "😀", "\xff", "\n", "/\n", "\x01", "    a\n"} {
		n := bad
		n.Event.InvolvedObject = event.ObjectReference{Kind: strings.Repeat(r, 253), Name: strings.Repeat(r, 253), Namespace: strings.Repeat(r, 253)}
		n.Event.Message = strings.Repeat(r, 128<<10) // twice what a comment takes
		n.Event.Metadata = map[string]string{}
		for i := range 100 {
			n.Event.Metadata[strings.Repeat(r, 400)+fmt.Sprint(i)] = strings.Repeat(r, 2000)
		}
		body := textOf(markerOf(PullRequestKey, "u", n.Event.InvolvedObject), n)
		if got := utf8.RuneCountInString(body); got > maxBody || !utf8.ValidString(body) {
			t.Errorf("%q: %d characters, valid %t; want %d at most", r, got, utf8.ValidString(body), maxBody)
		}
	}
}

// fakeReview has the comments of one change request.
type fakeReview struct {
	pages, pageBytes int // the pages that were read, and the length of each
	comments         []Comment
	asked            int
	log              []string
	now              time.Time
}

// do answers a request for the account, for a page of the comments or for a change of them.
func (f *fakeReview) do(_ context.Context, r provider.Request, out any) error {
	id, _ := strconv.Atoi(path.Base(r.URL.Path))
	switch {
	case r.URL.Path == "/user":
		f.asked++
		*out.(*Account) = Account{Login: "Flux-Bot"}
	case !strings.HasPrefix(r.URL.Path, "/7/"):
		return event.NewError(event.Permanent, provider.LabelClient, "HTTP 404", nil)
	case r.Method == http.MethodGet:
		page, size := 1, len(f.comments) // of a host whose lists have no pages
		if query := r.URL.Query(); query.Has("page") {
			page, _ = strconv.Atoi(query.Get("page"))
			size, _ = strconv.Atoi(query.Get("per_page"))
		}
		from := min((page-1)*size, len(f.comments))
		found := f.comments[from:min(from+size, len(f.comments))]
		f.pages++
		length := f.pageBytes
		for _, c := range found {
			length += len(c.Body)
		}
		if length > longPage {
			return provider.ErrTooLong
		}
		*out.(*listed) = listed{found, length}
	case id != 0:
		f.log = append(f.log, fmt.Sprintf("edit %d", id))
		f.comments[id-1].Body, f.comments[id-1].Updated = r.JSON.(map[string]string)["body"], f.now
	default:
		f.log = append(f.log, "create")
		body := strings.ReplaceAll(r.JSON.(map[string]string)["body"], "\n", "\r\n")
		f.comments = append(f.comments, Comment{ID: int64(len(f.comments) + 1), Author: Account{Username: "flux-bot"}, Body: body, Updated: f.now})
	}
	return nil
}

func (f *fakeReview) api() CommentAPI {
	return CommentAPI{
		Do: f.do, User: &url.URL{Path: "/user"}, Pages: url.Values{},
		On:  func(number int64) *url.URL { return &url.URL{Path: fmt.Sprintf("/%d/comments", number)} },
		One: func(number, id int64) *url.URL { return &url.URL{Path: fmt.Sprintf("/%d/comments/%d", number, id)} },
	}
}

func newComments(t *testing.T, f *fakeReview) *Comments {
	t.Helper()
	cfg := provider.Config{Address: "https://git.test/o/r", UID: "0c9c2e41"}
	client, err := provider.NewClient(cfg, provider.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return NewComments(cfg, client, f.api(), PullRequestKey)
}

func onChange(n provider.Notification, number string) provider.Notification {
	n.Event.Metadata = map[string]string{"change_request": number}
	return n
}

// Fails when only the first hundred comments are searched, when another account's comment with the same mark is edited, or when a
// comment with the same text is edited.
func TestTheOwnCommentIsFoundAmongManyAndEdited(t *testing.T) {
	f := &fakeReview{}
	stolen := markerOf(PullRequestKey, "0c9c2e41", bad.Event.InvolvedObject)
	for i := range 250 {
		f.comments = append(f.comments, Comment{ID: int64(i + 1), Author: Account{Username: "mallory"}, Body: stolen})
	}
	c := newComments(t, f)
	for _, n := range []provider.Notification{bad, bad, good, bad} {
		if err := c.Send(t.Context(), onChange(n, "7")); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(f.log, ", "); got != "create, edit 251, edit 251" || f.asked != 1 {
		t.Errorf("got %s; the login was asked for %d times", got, f.asked)
	}
}

// Fails when a replayed notification replaces the text of a newer one, which this process or an earlier one wrote, or keeps out one that
// follows it.
func TestALateFailureDoesNotReplaceTheTextOfANewerSuccess(t *testing.T) {
	f := &fakeReview{now: noon.Add(time.Hour)}
	c := newComments(t, f)
	send := func(c *Comments, n provider.Notification, want string) {
		t.Helper()
		if err := c.Send(t.Context(), onChange(n, "7")); err != nil || strings.Join(f.log, ", ") != want {
			t.Errorf("got %v, %v, want %s", f.log, err, want)
		}
	}
	send(c, at(good, time.Minute), "create")
	send(c, replayed(at(bad, 0)), "create")
	send(newComments(t, f), replayed(at(bad, 0)), "create")
	send(c, replayed(at(bad, 2*time.Minute)), "create, edit 1")
	send(c, replayed(at(good, 3*time.Minute)), "create, edit 1, edit 1")
}

// finished is the only success that a Kustomization reports after a failure that needed no change. It comes at every interval.
func finished(after time.Duration) provider.Notification {
	n := onChange(at(good, after), "7")
	n.Event.Message, n.Event.Metadata["commit_status"] = "Reconciliation finished in 98ms, next run in 10m0s", "update"
	return n
}

// Fails when the comment of a failure outlasts it, or when an update at every interval makes or edits a comment.
func TestTheCommentOfAFailureIsEditedByASuccessThatOnlyUpdatesAStatus(t *testing.T) {
	f := &fakeReview{}
	c := newComments(t, f)
	for i, step := range []struct {
		n    provider.Notification
		want string
	}{
		{finished(0), ""},
		{onChange(at(good, 1), "7"), "create"},
		{finished(2), "create"},
		{onChange(at(bad, 3), "7"), "create, edit 1"},
		{finished(4), "create, edit 1, edit 1"},
		{finished(5), "create, edit 1, edit 1"},
	} {
		if !TakesComments(step.n) {
			t.Errorf("step %d is not taken", i)
		} else if err := c.Send(t.Context(), step.n); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(f.log, ", "); got != step.want {
			t.Errorf("step %d: got %s, want %s", i, got, step.want)
		}
	}
	if text := f.comments[0].Body; strings.Contains(text, "⚠️") || !strings.Contains(text, "Reconciliation finished") {
		t.Errorf("the object is well, and the comment says %q", text)
	}
	pages := f.pages
	if err := newComments(t, f).Send(t.Context(), finished(6)); err != nil || len(f.log) != 3 || f.pages != pages+1 {
		t.Errorf("after a start: %v, %v, %d pages", err, f.log, f.pages-pages)
	}
	if err := c.Send(t.Context(), finished(7)); err != nil || f.pages != pages+1 || !c.Needless(finished(8)) {
		t.Errorf("%v: the comments are listed at every interval", err)
	}
}

// Fails when a comment of the own account about another object is edited because an Alert's author wrote the mark into it.
func TestAMarkWithinACommentIsText(t *testing.T) {
	stolen := markerOf(PullRequestKey, "0c9c2e41", bad.Event.InvolvedObject)
	f := &fakeReview{comments: []Comment{{ID: 1, Author: Account{Username: "flux-bot"}, Body: "<!-- of another -->\n* `team`: " + stolen}}}
	if err := newComments(t, f).Send(t.Context(), onChange(bad, "7")); err != nil || strings.Join(f.log, ", ") != "create" {
		t.Errorf("got %v, %v", err, f.log)
	}
}

func TestTheSearchForTheOwnCommentEnds(t *testing.T) {
	f := &fakeReview{comments: make([]Comment, maxComments+1)}
	if err := newComments(t, f).Send(t.Context(), onChange(bad, "7")); event.AsError(err).Class != event.Permanent || len(f.log) != 0 {
		t.Errorf("got %v, %v", err, f.log)
	}
}

// Fails when a host can have fifty answers of the greatest length decoded for one delivery, which take five seconds of a processor.
func TestT6TheSearchForTheOwnCommentReadsSomeMegabytes(t *testing.T) {
	f := &fakeReview{comments: make([]Comment, maxComments), pageBytes: 4 << 20}
	err := newComments(t, f).Send(t.Context(), onChange(bad, "7"))
	if event.AsError(err).Class != event.Permanent || f.pages > 9 {
		t.Errorf("%d pages of 4 MiB are read: %v", f.pages, err)
	}
}

// T6: anybody may comment on a public pull request. Fails when comments that fill more than an answer, or one alone that does, keep the own one
// from being found, or make the Provider wait until they are gone.
func TestT6LongCommentsOfOthersDoNotHideTheOwnOne(t *testing.T) {
	own := Comment{Author: Account{Username: "flux-bot"}, Body: markerOf(PullRequestKey, "0c9c2e41", bad.Event.InvolvedObject)}
	for name, lengths := range map[string][]int{
		"fifty long ones":         slices.Repeat([]int{80 << 10, 100 << 10}, 25),
		"a page of fewer as well": append(slices.Repeat([]int{1}, 60), 2<<20, 2<<20, 2<<20),
		"one, at the end":         {5 << 20},
		"one among others":        {1, 1, 5 << 20, 1, 1, 1},
	} {
		f := &fakeReview{}
		for _, n := range lengths {
			f.comments = append(f.comments, Comment{ID: int64(len(f.comments) + 1), Author: Account{Username: "mallory"}, Body: strings.Repeat("x", n)})
		}
		if err := newComments(t, f).Send(t.Context(), onChange(bad, "7")); err != nil || strings.Join(f.log, ", ") != "create" {
			t.Errorf("%s: got %v, %v", name, f.log, err)
		}
		own.ID = int64(len(lengths) + 1)
		f.comments, f.log = append(f.comments[:len(lengths)], own), nil
		if err := newComments(t, f).Send(t.Context(), onChange(bad, "7")); err != nil || strings.Join(f.log, ", ") != fmt.Sprintf("edit %d", own.ID) {
			t.Errorf("%s: got %v, %v", name, f.log, err)
		}
	}
	f := &fakeReview{}
	for range 20 {
		f.comments = append(f.comments, Comment{Body: strings.Repeat("x", 3<<20)})
	}
	c := newComments(t, f)
	if err := c.Send(t.Context(), onChange(bad, "7")); event.AsError(err).Class != event.Permanent || f.pages > 15 {
		t.Errorf("%d pages of long comments are read: %v", f.pages, err)
	}
	c.api.Pages = nil // as at Gitea
	if err := c.Send(t.Context(), onChange(bad, "7")); event.AsError(err).Class != event.Permanent {
		t.Errorf("a list without pages is too long: %v", err)
	}
}

func TestOnlyAReportedNumberIsAChangeRequest(t *testing.T) {
	for number, want := range map[string]int64{"7": 7, "0": 0, "-1": 0, "x": 0, "": 0, "7/../8": 0, "99999999999999999999": 0} {
		if got, err := changeRequest(onChange(bad, number)); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: got %d, %v", number, got, err)
		}
	}
	n := onChange(bad, "7")
	n.Authored = []string{"change_request"}
	if _, err := changeRequest(n); err == nil || TakesComments(n) {
		t.Error("an author's number is taken for that of a change request")
	}
	n.Annotated = n.Authored
	if got, err := changeRequest(n); got != 7 || err != nil || !TakesComments(n) {
		t.Errorf("for an object with the annotation: got %d, %v", got, err)
	}
	n = onChange(bad, "7")
	n.Event.Metadata["commit_status"] = "update"
	if TakesComments(n) {
		t.Error("what only updates a status is commented")
	}
}
