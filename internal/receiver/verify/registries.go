package verify

import (
	"encoding/json"
	"net/http"
)

// unsigned serves Docker Hub and Quay, which cannot sign: like generic it authenticates by its path. Their fields only feed filters.
var unsigned = scheme{begin: provenByPath, parse: parseUnsigned}

func parseUnsigned(_ http.Header, body []byte) (Content, error) {
	if !json.Valid(body) {
		return Content{}, refusedJSON
	}
	return Content{Document: body}, nil
}
