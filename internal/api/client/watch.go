package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"notifier/internal/event/view"
)

// maxItem bounds one item of a stream in bytes.
const maxItem = 4 << 20

// ErrEnded says that the API ended a watch, as it does after some time: the caller may watch again.
var ErrEnded = errors.New("the watch ended")

// Watch calls handle with each new item of a list of a namespace as it comes, until ctx ends, handle returns an error or the API ends the
// stream. It returns the error of handle as it is.
func Watch[T any](ctx context.Context, c *Client, namespace string, list List, q view.Query, handle func(T) error) error {
	u := c.url("v1", "namespaces", namespace, string(list))
	v := values(q)
	v.Set("watch", "1")
	u.RawQuery = v.Encode()
	answer, err := c.request(ctx, http.MethodGet, u, nil, "text/event-stream")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(make([]byte, 0, 64<<10), maxItem)
	var s serverSent
	for lines.Scan() {
		data, name := s.line(lines.Bytes())
		if data == nil {
			continue
		}
		if name == "error" {
			return said(data)
		}
		var item T
		if err := json.Unmarshal(data, &item); err != nil {
			return errors.New("the stream has an item that is not of this API")
		}
		if err := handle(item); err != nil {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case lines.Err() != nil:
		return fmt.Errorf("read the stream: %w", lines.Err())
	}
	return ErrEnded
}

// said is the error that a stream's last message says.
func said(data []byte) error {
	var e struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(data, &e) != nil || e.Error == "" {
		return ErrEnded
	}
	return &Error{Status: http.StatusForbidden, Message: e.Error}
}

// serverSent reads a stream of server-sent events (WHATWG HTML, section 9.2) line by line.
type serverSent struct {
	name string
	data []byte
}

// line takes in a line and returns the data and the name of the event that it completes, nil data for none.
func (s *serverSent) line(line []byte) (data []byte, name string) {
	if len(line) == 0 {
		data, name = s.data, s.name
		s.data, s.name = nil, ""
		return data, name
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		s.name = string(value)
	case "data":
		if s.data != nil {
			s.data = append(s.data, '\n')
		}
		s.data = append(s.data, value...)
	}
	return nil, ""
}
