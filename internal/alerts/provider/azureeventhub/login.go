package azureeventhub

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// signatureLife is the time for which a shared access signature is valid. A signature is made for one send.
const signatureLife = 10 * time.Minute

// connection has the fields of a connection string.
type connection struct{ endpoint, keyName, key, hub string }

var errConnection = errors.New("address is not a connection string with Endpoint=sb:…;SharedAccessKeyName=…;SharedAccessKey=…;EntityPath=…")

// parseConnection parses a connection string. Its errors quote nothing of it.
func parseConnection(text string) (connection, error) {
	var c connection
	for part := range strings.SplitSeq(text, ";") {
		name, value, ok := strings.Cut(part, "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "endpoint":
			c.endpoint = value
		case "sharedaccesskeyname":
			c.keyName = value
		case "sharedaccesskey":
			c.key = value
		case "entitypath":
			c.hub = value
		case "":
			ok = ok || strings.TrimSpace(part) == ""
		}
		if !ok {
			return connection{}, errConnection
		}
	}
	rest, ok := strings.CutPrefix(c.endpoint, "sb://")
	if !ok || rest == "" || c.keyName == "" || c.key == "" {
		return connection{}, errConnection
	}
	c.endpoint = "https://" + rest
	return c, nil
}

// sharedKey signs shared access signatures.
type sharedKey struct {
	name     string
	key      []byte
	resource string
	now      func() time.Time
}

// authorization returns a signature over the resource and the signature's end ("Generate a Shared Access Signature token").
func (k *sharedKey) authorization(context.Context) (string, error) {
	resource, end := url.QueryEscape(k.resource), strconv.FormatInt(k.now().Add(signatureLife).Unix(), 10)
	mac := hmac.New(sha256.New, k.key)
	mac.Write([]byte(resource + "\n" + end))
	signature := url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return "SharedAccessSignature sr=" + resource + "&sig=" + signature + "&se=" + end + "&skn=" + url.QueryEscape(k.name), nil
}
