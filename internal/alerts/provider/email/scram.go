package email

import (
	"bytes"
	"strconv"

	"github.com/wneessen/go-mail/smtp"

	"notifier/internal/alerts/provider"
	"notifier/internal/event"
)

// maxIterations bounds how often a server may have the password hashed (RFC 5802). Servers ask for some thousand times. A hundred
// thousand take some ten milliseconds of processor time. The two billion that the protocol allows take half an hour, which no context
// ends.
const maxIterations = 100_000

var errIterations = event.NewError(event.Permanent, provider.LabelRejected, "the server asks for more work at the login than is done for it", nil)

// boundedScram is a login by SCRAM that refuses to hash more than maxIterations times in all: a server may ask again and again.
type boundedScram struct {
	smtp.Auth
	hashed int
}

// Next answers the server, whose first message is "r=<nonce>,s=<salt>,i=<iterations>".
func (b *boundedScram) Next(said []byte, more bool) ([]byte, error) {
	for part := range bytes.SplitSeq(said, []byte(",")) {
		if count, ok := bytes.CutPrefix(part, []byte("i=")); ok {
			n, err := strconv.Atoi(string(count))
			if err != nil || n < 0 || n > maxIterations-b.hashed {
				return nil, errIterations
			}
			b.hashed += n
		}
	}
	return b.Auth.Next(said, more)
}
