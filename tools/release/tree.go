package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// entry is a file or, if its name ends with a slash, a directory.
type entry struct {
	name  string // slash-separated, without a leading slash
	mode  fs.FileMode
	owner int // user and group
	body  []byte
}

func (e entry) isDir() bool { return strings.HasSuffix(e.name, "/") }

// tree is the files of an archive. They have one time and no names of users, and are sorted, so that the same files give the same bytes.
type tree struct {
	entries []entry
	time    time.Time
}

func (t *tree) add(name string, mode fs.FileMode, body []byte) {
	t.entries = append(t.entries, entry{name: name, mode: mode, body: body})
}

// sorted has the directories of all entries, each before what is in it.
func (t *tree) sorted() []entry {
	all := slices.Clone(t.entries)
	known := make(map[string]bool)
	for _, e := range all {
		known[e.name] = true
	}
	for _, e := range t.entries {
		for dir := path.Dir(strings.TrimSuffix(e.name, "/")); dir != "." && !known[dir+"/"]; dir = path.Dir(dir) {
			known[dir+"/"] = true
			all = append(all, entry{name: dir + "/", mode: 0o755})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return all
}

// tar is the tree as a tar file, each name with a prefix.
func (t *tree) tar(prefix string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range t.sorted() {
		header := tar.Header{
			Typeflag: tar.TypeReg, Name: prefix + e.name, Mode: int64(e.mode.Perm()), Size: int64(len(e.body)),
			Uid: e.owner, Gid: e.owner, ModTime: t.time, Format: tar.FormatUSTAR,
		}
		if e.isDir() {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.body); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// zip is the tree as a zip file.
func (t *tree) zip() ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, e := range t.sorted() {
		header := zip.FileHeader{Name: e.name, Modified: t.time, Method: zip.Deflate}
		header.SetMode(e.mode)
		if e.isDir() {
			header.SetMode(e.mode | fs.ModeDir)
			header.Method = zip.Store
		}
		to, err := w.CreateHeader(&header)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(e.body); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// zipped compresses with gzip, without a name and a time.
func zipped(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}
