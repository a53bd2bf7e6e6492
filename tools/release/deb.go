package main

import (
	"bytes"
	"crypto/md5"
	_ "embed"
	"fmt"
	"strings"
	"time"
)

// What only the Debian package has.
var (
	//go:embed debian/control
	debControl string
	//go:embed debian/copyright
	debCopyright []byte
	//go:embed debian/rehop.yaml
	debConfig []byte
	//go:embed debian/environment
	debEnvironment []byte
	//go:embed debian/postinst
	debPostinst []byte
	//go:embed debian/prerm
	debPrerm []byte
	//go:embed debian/postrm
	debPostrm []byte
)

// conffiles are those that an upgrade leaves as the administrator has changed them.
const conffiles = "/etc/rehop/environment\n/etc/rehop/rehop.yaml\n"

// deb is the Debian package for a processor: its name, and its bytes.
func (r release) deb(arch string, binary []byte, c companions) (name string, data []byte, err error) {
	files, err := r.debFiles(binary, c)
	if err != nil {
		return "", nil, err
	}
	body, err := zippedTar(files)
	if err != nil {
		return "", nil, err
	}
	control, err := zippedTar(r.debControl(arch, files))
	if err != nil {
		return "", nil, err
	}
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, member := range []struct {
		name string
		data []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", control}, {"data.tar.gz", body}} {
		writeMember(&out, member.name, r.source.time, member.data)
	}
	return fmt.Sprintf("rehop_%s_%s.deb", r.version.debian(), arch), out.Bytes(), nil
}

// writeMember appends a file to an archive of ar.
func writeMember(out *bytes.Buffer, name string, at time.Time, data []byte) {
	fmt.Fprintf(out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", name, at.Unix(), 0, 0, "100644", len(data))
	out.Write(data)
	if len(data)%2 == 1 {
		out.WriteByte('\n')
	}
}

func zippedTar(t *tree) ([]byte, error) {
	data, err := t.tar("./")
	if err != nil {
		return nil, err
	}
	return zipped(data)
}

// debFiles are the files that the package installs.
func (r release) debFiles(binary []byte, c companions) (*tree, error) {
	unit, err := debUnit(string(c.unit))
	if err != nil {
		return nil, err
	}
	changelog, err := zipped(c.changelog)
	if err != nil {
		return nil, err
	}
	manual, err := zipped(c.manual)
	if err != nil {
		return nil, err
	}
	t := &tree{time: r.source.time}
	t.add("usr/bin/rehop", 0o755, binary)
	t.add("usr/lib/systemd/system/rehop.service", 0o644, []byte(unit))
	t.add("usr/share/man/man1/rehop.1.gz", 0o644, manual)
	t.add("usr/share/bash-completion/completions/rehop", 0o644, c.completions["bash"])
	t.add("usr/share/zsh/vendor-completions/_rehop", 0o644, c.completions["zsh"])
	t.add("usr/share/fish/vendor_completions.d/rehop.fish", 0o644, c.completions["fish"])
	t.add("usr/share/doc/rehop/copyright", 0o644, debCopyright)
	t.add("usr/share/doc/rehop/LICENSES.txt", 0o644, c.licenses)
	t.add("usr/share/doc/rehop/changelog.gz", 0o644, changelog)
	t.add("usr/share/doc/rehop/README.md", 0o644, c.readme)
	t.add("usr/share/doc/rehop/examples/rehop.yaml", 0o644, c.example)
	t.add("etc/rehop/rehop.yaml", 0o644, debConfig)
	t.add("etc/rehop/environment", 0o600, debEnvironment) // secrets, which systemd reads as root
	return t, nil
}

// debUnit is the unit of deploy/ for the package: with the binary in /usr/bin and the system user that the package creates.
func debUnit(unit string) (string, error) {
	const how = "# rehop as a service: flows from /etc/rehop/rehop.yaml, with a broker of its own in /var/lib/rehop unless the file names one.\n" +
		"# Secrets that the file refers to as ${NAME} belong into /etc/rehop/environment. To change settings: systemctl edit rehop\n\n"
	_, sections, found := strings.Cut(unit, "[Unit]\n")
	if !found {
		return "", fmt.Errorf("deploy/rehop.service has no section [Unit]")
	}
	unit = how + "[Unit]\nDocumentation=man:rehop(1)\n" + sections
	for _, change := range [][2]string{
		{"ExecStart=/usr/local/bin/rehop ", "ExecStart=/usr/bin/rehop "},
		{"\nDynamicUser=yes\n", "\nUser=rehop\nGroup=rehop\n"},
	} {
		if strings.Count(unit, change[0]) != 1 {
			return "", fmt.Errorf("deploy/rehop.service does not have %q once, which the Debian package replaces by %q", change[0], change[1])
		}
		unit = strings.Replace(unit, change[0], change[1], 1)
	}
	return unit, nil
}

// debControl is what dpkg needs to know.
func (r release) debControl(arch string, files *tree) *tree {
	var sums strings.Builder
	size := 0
	for _, e := range files.sorted() {
		size += (len(e.body) + 1023) / 1024 // in KiB, as dpkg-gencontrol counts: rounded up, and 1 for a directory
		if e.isDir() {
			size++
			continue
		}
		if !strings.Contains(conffiles, "/"+e.name+"\n") { // those may change
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(e.body), e.name)
		}
	}
	fields := strings.NewReplacer("$VERSION", r.version.debian(), "$ARCH", arch, "$SIZE", fmt.Sprint(size)).Replace(debControl)
	t := &tree{time: r.source.time}
	t.add("control", 0o644, []byte(fields))
	t.add("conffiles", 0o644, []byte(conffiles))
	t.add("md5sums", 0o644, []byte(sums.String()))
	t.add("postinst", 0o755, debPostinst)
	t.add("prerm", 0o755, debPrerm)
	t.add("postrm", 0o755, debPostrm)
	return t
}
