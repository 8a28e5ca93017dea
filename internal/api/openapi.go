package api

import (
	_ "embed" // the document
	"fmt"

	"sigs.k8s.io/yaml"
)

// openapi is the description of the API in OpenAPI 3.1.
//
//go:embed openapi.yaml
var openapi []byte

// openAPI returns the description in JSON.
func openAPI() ([]byte, error) {
	document, err := yaml.YAMLToJSON(openapi)
	if err != nil {
		return nil, fmt.Errorf("api: description: %w", err)
	}
	return document, nil
}
