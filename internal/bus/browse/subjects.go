package browse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/tidwall/gjson"
)

const (
	apiInfo = "$JS.API.STREAM.INFO."
	// pageOverlap is how many subjects the next page repeats. So many may be removed before it, and none is missed.
	pageOverlap = 1000
)

// Subjects returns the subjects that match a filter and of which the stream has messages, sorted. A subject that comes or goes during the call
// may be missing. The subjects share the memory of the server's answers.
//
// The client makes a map of the server's answer, and a second one of its pages. For 100,000 subjects that takes longer than the server needs
// to list them, and a start waits for it. So gjson reads the answer instead: it has no dependencies but two small packages of its author.
func (s Stream) Subjects(ctx context.Context, filter string) ([]string, error) {
	var found []string
	for {
		offset := max(0, len(found)-pageOverlap)
		page, total, err := s.subjectsPage(ctx, filter, offset)
		if err != nil {
			return nil, fmt.Errorf("list subjects of %s: %w", s.name(), err)
		}
		end := offset+len(page) >= total
		if len(found) > 0 {
			last := found[len(found)-1]
			if len(page) > 0 && page[0] > last {
				found = nil // too many before it were removed meanwhile
				continue
			}
			for len(page) > 0 && page[0] <= last {
				page = page[1:]
			}
		}
		found = append(found, page...)
		if end {
			return found, nil
		}
		if len(page) == 0 {
			return nil, fmt.Errorf("list subjects of %s: a page is empty", s.name())
		}
	}
}

// subjectsPage returns the subjects from an offset on, as many as the server puts into one answer, and how many match the filter in all.
func (s Stream) subjectsPage(ctx context.Context, filter string, offset int) (page []string, total int, err error) {
	body, err := json.Marshal(struct {
		Filter string `json:"subjects_filter"`
		Offset int    `json:"offset"`
	}{filter, offset})
	if err != nil {
		return nil, 0, err
	}
	reply, err := s.Conn.RequestWithContext(ctx, apiInfo+s.name(), body)
	if err != nil {
		return nil, 0, err
	}
	answer := gjson.GetManyBytes(reply.Data, "error", "total", "state.subjects")
	if failed := answer[0]; failed.Exists() {
		refused := new(jetstream.APIError)
		if json.Unmarshal([]byte(failed.Raw), refused) != nil {
			return nil, 0, errors.New("answer is not understood")
		}
		return nil, 0, refused
	}
	answer[2].ForEach(func(subject, _ gjson.Result) bool {
		page = append(page, subject.String())
		return true
	})
	return page, int(answer[1].Int()), nil
}
