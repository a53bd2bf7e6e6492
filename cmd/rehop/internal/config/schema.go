package config

import _ "embed"

// schema is written by hand; a test compares it with the reader.
//
//go:embed schema.json
var schema []byte

// Schema returns a JSON Schema of the file, with which editors complete and check it.
func Schema() []byte { return append([]byte{}, schema...) }

//go:embed example.yaml
var example []byte

// Example returns a file with comments, to begin with.
func Example() []byte { return append([]byte{}, example...) }
