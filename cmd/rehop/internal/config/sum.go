package config

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
)

// Sum identifies the content of a file. The zero value stands for one that cannot be read.
type Sum [sha256.Size]byte

// SumOf returns the sum of the present content of a file. Like Load, it follows symbolic links.
func SumOf(path string) Sum {
	text, err := read(path)
	if err != nil {
		return Sum{}
	}
	return sha256.Sum256(text)
}

// read reads a file, up to a little more than the largest. Its errors are Faults.
func read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, Faults{{File: path, Text: "cannot be read: " + reason(err)}}
	}
	text, err := io.ReadAll(io.LimitReader(file, largest+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, Faults{{File: path, Text: "cannot be read: " + reason(err)}}
	}
	return text, nil
}

// Stamp is what the system knows of a file without reading it.
type Stamp struct{ info fs.FileInfo }

// StampOf returns the stamp of a file, following symbolic links.
func StampOf(path string) Stamp {
	info, err := os.Stat(path)
	if err != nil {
		return Stamp{}
	}
	return Stamp{info}
}

// Same reports whether a file is the same and was not written since.
func (s Stamp) Same(now Stamp) bool {
	if s.info == nil || now.info == nil {
		return s.info == nil && now.info == nil
	}
	return os.SameFile(s.info, now.info) && s.info.Size() == now.info.Size() && s.info.ModTime().Equal(now.info.ModTime())
}
