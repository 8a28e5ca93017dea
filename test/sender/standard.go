package sender

import (
	"strconv"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// StandardWebhooks signs now as the specification says, by the library of its authors. It panics on a token that is no
// signing secret.
func StandardWebhooks(token, body string) Webhook { return StandardWebhooksAt(token, body, time.Now()) }

// StandardWebhooksAt signs as StandardWebhooks does at another time.
func StandardWebhooksAt(token, body string, at time.Time) Webhook {
	wh, err := standardwebhooks.NewWebhook(token)
	if err != nil {
		panic(err)
	}
	id := "msg_" + delivery()
	signature, err := wh.Sign(id, at, []byte(body))
	if err != nil {
		panic(err)
	}
	return webhook(body, standardwebhooks.HeaderWebhookID, id, standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10),
		standardwebhooks.HeaderWebhookSignature, signature)
}
