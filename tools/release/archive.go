package main

import "fmt"

// archive is the file that users of a platform download and unpack: its name, and its bytes.
func (r release) archive(p platform, binary []byte, c companions) (name string, data []byte, err error) {
	base := fmt.Sprintf("rehop_%s_%s_%s", r.version.number(), p.os, p.arch)
	t := tree{time: r.source.time}
	t.add(base+"/"+p.program(), 0o755, binary)
	t.add(base+"/LICENSE", 0o644, c.license)
	t.add(base+"/LICENSES.txt", 0o644, c.licenses)
	t.add(base+"/README.md", 0o644, c.readme)
	t.add(base+"/CHANGELOG.md", 0o644, c.changelog)
	t.add(base+"/rehop.yaml", 0o644, c.example)
	for shell, script := range c.completions {
		t.add(base+"/completions/"+completionFiles[shell], 0o644, script)
	}
	if p.os == "windows" {
		data, err = t.zip()
		return base + ".zip", data, err
	}
	t.add(base+"/rehop.1", 0o644, c.manual)
	if p.os == "linux" {
		t.add(base+"/rehop.service", 0o644, c.unit)
	}
	if data, err = t.tar(""); err != nil {
		return "", nil, err
	}
	data, err = zipped(data)
	return base + ".tar.gz", data, err
}
