package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// send answers with a value, which it encodes in the user's turn. It waits while too many bytes of answers are being sent.
func (h *Handler) send(w http.ResponseWriter, r *http.Request, u *User, value any) error {
	var body []byte
	sent, err := h.service.Answer(r.Context(), u, func() (size int, err error) {
		body, err = encoded(value)
		return len(body), err
	})
	if err != nil {
		return err
	}
	defer sent()
	writeBody(w, http.StatusOK, body)
	return nil
}

// encoded returns a value in JSON, without the escapes that make JSON safe within HTML, which it never becomes a part of: they would make a
// message of '<' six times as long.
func encoded(value any) ([]byte, error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), err
}

// writeJSON answers with a value that can be encoded.
func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err) // the values are ours and have only texts
	}
	writeBody(w, status, body)
}

func writeBody(w http.ResponseWriter, status int, body []byte) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	WriteParts(w, body)
}

// Bounds on the time in which a client reads an answer: partTimeout for each partBytes, answerTimeout for all. The largest list takes
// answerTimeout at 17 KiB a second.
const (
	partBytes     = 16 << 10
	partTimeout   = 25 * time.Second
	answerTimeout = 2 * time.Minute
)

// WriteParts writes the body of an answer in parts. Each has its own write deadline, so that a slow client reads to the end and one that does
// not read is cut.
func WriteParts(w http.ResponseWriter, body []byte) {
	control, end := http.NewResponseController(w), time.Now().Add(answerTimeout)
	for part := range slices.Chunk(body, partBytes) {
		deadline := time.Now().Add(partTimeout)
		if deadline.After(end) {
			deadline = end
		}
		_ = control.SetWriteDeadline(deadline) // without deadlines of its own an answer has that of the server
		if _, err := w.Write(part); err != nil {
			return // the client is gone
		}
	}
}

// maxBody bounds the body of a request, in bytes. A thousand IDs have some forty thousand.
const maxBody = 128 << 10

// readJSON decodes the body of a request, which is one JSON document of known fields.
func readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &Error{Status: http.StatusUnsupportedMediaType, Text: "send a JSON document with \"Content-Type: application/json\""}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return &Error{Status: http.StatusRequestEntityTooLarge, Text: "the body is larger than " + strconv.Itoa(maxBody) + " bytes"}
	}
	if err != nil {
		return invalid("the body was not sent to its end")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if decoder.Decode(into) != nil || !errors.Is(decoder.Decode(new(json.RawMessage)), io.EOF) {
		return invalid("the body is not one JSON document of the fields that /openapi.json names")
	}
	return nil
}

// Answer has an answer made in the user's turn, and waits for capacity to send it. make returns the answer's size in bytes. The caller calls
// sent once it is sent.
//
// The time of make is charged like that of a read; it is not refused for lack of time, since the read would be in vain. The bytes that are being
// sent are bounded for each user and for all. An answer beyond a user's bound waits until it is the only one.
func (s *Service) Answer(ctx context.Context, u *User, make func() (size int, err error)) (sent func(), err error) {
	size, err := s.inTurnOf(ctx, u, make)
	if err != nil {
		return nil, err
	}
	return take(ctx, s.limits.answers, u, min(int64(size), userAnswerBytes))
}

func (s *Service) inTurnOf(ctx context.Context, u *User, make func() (int, error)) (int, error) {
	end, err := s.limits.turn(ctx, u)
	if err != nil {
		return 0, err
	}
	defer end(true)
	return make()
}
