package cel

import "encoding/json"

// maxDecoded bounds in bytes the greatest document that is decoded, by the estimate of decodedSize.
const maxDecoded = 32 << 20

// The memory of a document's decoded values, in bytes, measured with the most wasteful documents.
const (
	objectSize = 400
	listSize   = 64
	valueSize  = 128
)

// decodedSize estimates from above the memory of a decoded JSON document. Short values take up to fifty times their bytes in JSON, so a
// document of 3 MiB may take 150.
func decodedSize(document []byte) int64 {
	size := int64(len(document))
	for i := 0; i < len(document); i++ {
		switch document[i] {
		case '{':
			size += objectSize
		case '[':
			size += listSize
		case ',':
			size += valueSize
		case '"':
			for i++; i < len(document) && document[i] != '"'; i++ {
				if document[i] == '\\' {
					i++
				}
			}
		}
	}
	return size
}

// decodeDocument returns a document in the form that expressions read: an empty object if there is none, or it is null.
func decodeDocument(document []byte) (any, error) {
	if len(document) == 0 {
		return map[string]any{}, nil
	}
	var decoded any
	if json.Unmarshal(document, &decoded) != nil {
		return nil, errNotJSON
	}
	if decoded == nil {
		return map[string]any{}, nil
	}
	return decoded, nil
}
