package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

const checksumFile = "SHA256SUMS"

// writeChecksums writes a file that sha256sum -c reads, with all files of a directory.
func writeChecksums(dir string) error {
	files, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(data), f.Name())
	}
	return os.WriteFile(filepath.Join(dir, checksumFile), out.Bytes(), 0o644)
}
