package githost

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// Comment is a comment on a change request, in the names of the hosts' APIs.
type Comment struct {
	// ID is the host's ID of the comment.
	ID   int64  `json:"id"`
	Body string `json:"body"`
	// Updated is the time at which the comment was written or edited last, zero if the host gives none.
	Updated time.Time `json:"updated_at"`
	// User is the account that wrote the comment, or Author at GitLab.
	User   Account `json:"user"`
	Author Account `json:"author"`
}

// Account is an account of a host. It has a Login at GitHub and Gitea, and a Username at GitLab.
type Account struct {
	Login    string `json:"login"`
	Username string `json:"username"`
}

// Name returns the account's name at its host.
func (a Account) Name() string { return cmp.Or(a.Login, a.Username) }

// The bounds on the search for the own comment. GitHub keeps 2,500 comments at most on a pull request. A megabyte takes a fortieth of a second
// to decode, and a tenant's host may fill each page.
const (
	maxComments = 2500
	maxSearched = 32 << 20 // bytes of all pages; beyond it no other is read
	longPage    = 4 << 20  // bytes that a page counts whose answer is too long
)

// Comments sends notifications as comments on change requests. What a failure opens is the comment that tells it.
type Comments struct {
	provider.Recoveries
	*provider.Client
	api      CommentAPI
	key, uid string
	login    atomic.Pointer[string]
	latest   latest
}

// NewComments returns the Comments of a Provider, marked with key.
func NewComments(cfg provider.Config, client *provider.Client, api CommentAPI, key string) *Comments {
	return &Comments{Client: client, api: api, key: key, uid: cfg.UID}
}

// Send edits the comment about the notification's object, or creates it if there is none. A replayed notification leaves a newer text as it
// is, and an event that only closes edits the comment of a failure alone.
func (c *Comments) Send(ctx context.Context, n provider.Notification) error {
	return c.Recoveries.Send(n, func() error { return c.send(ctx, n) })
}

func (c *Comments) send(ctx context.Context, n provider.Notification) error {
	number, err := changeRequest(n)
	if err != nil {
		return event.AsError(err)
	}
	marker := markerOf(c.key, c.uid, n.Event.InvolvedObject)
	key := latestKey{strconv.FormatInt(number, 10), provider.ObjectKey(c.uid, n.Event.InvolvedObject)} // short, whatever the names
	return c.Call(ctx, func(ctx context.Context) error {
		own, err := c.own(ctx)
		if err != nil {
			return err
		}
		comment, err := c.find(ctx, number, func(known Comment) bool {
			// Within a comment a mark is text of an Alert's author. Several authors may share the account.
			author := cmp.Or(known.User.Name(), known.Author.Name())
			return strings.EqualFold(author, own) && strings.HasPrefix(strings.TrimSpace(known.Body), marker)
		})
		if err != nil || n.Replayed && c.latest.overtaken(key, n.Event.Timestamp, comment.Updated) {
			return err
		}
		if provider.ClosesOnly(n) && !tellsFailure(comment.Body) {
			return nil
		}
		if body := textOf(marker, n); comment.ID == 0 || !sameText(comment.Body, body) {
			err = c.api.write(ctx, number, comment.ID, body)
		}
		if err == nil {
			c.latest.note(n, key, digest{}, time.Now())
		}
		return err
	})
}

// own returns the login of the own account.
func (c *Comments) own(ctx context.Context) (string, error) {
	if known := c.login.Load(); known != nil {
		return *known, nil
	}
	login, err := c.api.login(ctx)
	if err != nil {
		return "", err
	}
	if login == "" {
		return "", event.NewError(event.Retry, provider.LabelReply, "the host does not say whose the token is", nil)
	}
	c.login.Store(&login)
	return login, nil
}

// find returns the first comment for which wanted returns true, the zero Comment if there is none. Anybody may comment, at length, on a change
// request of a public repository: comments that make a page too long are read in smaller pages, and one that is too long by itself is another's.
func (c *Comments) find(ctx context.Context, number int64, wanted func(Comment) bool) (Comment, error) {
	small := 0 // index of the page's size
	for from, searched := 0, 0; from < maxComments && searched <= maxSearched; {
		size := pageSizes[small]
		found, more, err := c.api.page(ctx, number, from, size)
		switch long := errors.Is(err, provider.ErrTooLong); {
		case long && c.api.Pages == nil:
			return Comment{}, errTooMany
		case long && size > 1:
			searched += longPage
			small++
			continue
		case long:
			found.size, more = longPage, true
		case err != nil:
			return Comment{}, err
		}
		if i := slices.IndexFunc(found.comments, wanted); i >= 0 {
			return found.comments[i], nil
		}
		if searched += found.size; !more {
			return Comment{}, nil
		}
		from += size
		small = slices.IndexFunc(pageSizes, func(size int) bool { return from%size == 0 })
	}
	return Comment{}, errTooMany
}

// errTooMany is not retried: the Provider's other deliveries would wait for it.
var errTooMany = event.NewError(event.Permanent, provider.LabelRejected,
	"the change request has too many comments, or too long ones, to find the own one", nil)

// sameText reports whether two texts are equal apart from the hosts' changes to line ends.
func sameText(a, b string) bool {
	normal := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")) }
	return normal(a) == normal(b)
}
