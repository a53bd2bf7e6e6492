package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// unpacked is a file or directory of an archive, as a reader finds it.
type unpacked struct {
	name     string
	mode     fs.FileMode
	uid, gid int
	names    string // of user and group
	time     time.Time
	body     []byte
}

// untar reads a tar file.
func untar(t *testing.T, from io.Reader) []unpacked {
	t.Helper()
	var all []unpacked
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, unpacked{h.Name, h.FileInfo().Mode(), h.Uid, h.Gid, h.Uname + h.Gname, h.ModTime, body})
	}
}

func gunzip(t *testing.T, data []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if r.Name != "" || !r.ModTime.IsZero() {
		t.Errorf("a gzip header has the name %q and the time %v, want none", r.Name, r.ModTime)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func unzip(t *testing.T, data []byte) []unpacked {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var all []unpacked
	for _, f := range r.File {
		from, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, unpacked{name: f.Name, mode: f.Mode(), time: f.Modified, body: body})
	}
	return all
}

// unpack reads the archive of a platform, once for all checks.
func (p published) unpack(t *testing.T, on platform) []unpacked {
	t.Helper()
	if p.archives[on] == nil {
		p.archives[on] = p.read(t, on)
	}
	return p.archives[on]
}

func (p published) read(t *testing.T, on platform) []unpacked {
	t.Helper()
	base := filepath.Join(p.dir, "rehop_"+p.version.number()+"_"+on.os+"_"+on.arch)
	if on.os == "windows" {
		return unzip(t, readFile(t, base+".zip"))
	}
	return untar(t, bytes.NewReader(gunzip(t, readFile(t, base+".tar.gz"))))
}

// binary is the program in the archive of a platform.
func (p published) binary(t *testing.T, on platform) []byte {
	t.Helper()
	for _, f := range p.unpack(t, on) {
		if strings.HasSuffix(f.name, "/"+on.program()) {
			return f.body
		}
	}
	t.Fatalf("the archive for %s has no %s", on, on.program())
	return nil
}

// sameOwners sees that nothing of the machine that built the files is in them.
func sameOwners(t *testing.T, p published, files []unpacked) {
	t.Helper()
	if !slices.IsSortedFunc(files, func(a, b unpacked) int { return strings.Compare(a.name, b.name) }) {
		t.Error("the files are not sorted")
	}
	for _, f := range files {
		if f.uid != 0 || f.gid != 0 || f.names != "" || !f.time.Equal(p.source.time) {
			t.Errorf("%s belongs to %d:%d %q and is from %v, want 0:0 without names, and %v", f.name, f.uid, f.gid, f.names, f.time, p.source.time)
		}
	}
}

// Each archive has one directory with the program and what comes with it.
func checkArchives(t *testing.T, p published) {
	for _, on := range p.platforms {
		files := p.unpack(t, on)
		sameOwners(t, p, files)
		top := "rehop_" + p.version.number() + "_" + on.os + "_" + on.arch + "/"
		want := []string{on.program(), "LICENSE", "LICENSES.txt", "README.md", "CHANGELOG.md", "rehop.yaml", "completions/rehop.bash", "completions/rehop.ps1"}
		if on.os != "windows" {
			want = append(want, "rehop.1")
		}
		if on.os == "linux" {
			want = append(want, "rehop.service")
		}
		for _, name := range want {
			i := slices.IndexFunc(files, func(f unpacked) bool { return f.name == top+name })
			if i < 0 || len(files[i].body) == 0 {
				t.Errorf("the archive for %s has no %s", on, top+name)
				continue
			}
			mode := fs.FileMode(0o644)
			if name == on.program() {
				mode = 0o755
			}
			if files[i].mode != mode {
				t.Errorf("%s of %s has the mode %v, want %v", name, on, files[i].mode, mode)
			}
			if name == "LICENSES.txt" {
				checkLicenses(t, p.binary(t, on), files[i].body)
			}
		}
		for _, f := range files {
			if !strings.HasPrefix(f.name, top) {
				t.Errorf("the archive for %s has %s, which is not below %s", on, f.name, top)
			}
		}
	}
}

// checkLicenses sees that there is a license for all modules of a binary.
func checkLicenses(t *testing.T, binary, licenses []byte) {
	t.Helper()
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range info.Deps {
		own := strings.HasPrefix(m.Path, mainModule)
		if has := bytes.Contains(licenses, []byte("\n=== "+m.Path+" "+m.Version+": ")); has == own {
			t.Errorf("LICENSES.txt has %s %s: got %v, want %v", m.Path, m.Version, has, !own)
		}
	}
}

// Each binary is a program for its platform, and needs no library on linux.
func checkHeaders(t *testing.T, p published) {
	for _, on := range p.platforms {
		from := bytes.NewReader(p.binary(t, on))
		switch on.os {
		case "linux":
			f, err := elf.NewFile(from)
			if err != nil {
				t.Fatal(err)
			}
			if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[on.arch]; f.Type != elf.ET_EXEC || f.Machine != want {
				t.Errorf("%s: got %v for %v, want a program for %v", on, f.Type, f.Machine, want)
			}
			if slices.ContainsFunc(f.Progs, func(s *elf.Prog) bool { return s.Type == elf.PT_INTERP }) {
				t.Errorf("%s: the binary needs libraries", on)
			}
		case "darwin":
			f, err := macho.NewFile(from)
			if err != nil {
				t.Fatal(err)
			}
			if want := map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}[on.arch]; f.Type != macho.TypeExec || f.Cpu != want {
				t.Errorf("%s: got %v for %v, want a program for %v", on, f.Type, f.Cpu, want)
			}
			// A Mac with an arm64 processor refuses programs without a signature.
			if on.arch == "arm64" && !slices.ContainsFunc(f.Loads, func(l macho.Load) bool { return f.ByteOrder.Uint32(l.Raw()) == 0x1d }) {
				t.Errorf("%s: the binary has no signature", on)
			}
		case "windows":
			f, err := pe.NewFile(from)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]uint16{"amd64": pe.IMAGE_FILE_MACHINE_AMD64, "arm64": pe.IMAGE_FILE_MACHINE_ARM64}[on.arch]
			if f.Machine != want || f.Characteristics&pe.IMAGE_FILE_EXECUTABLE_IMAGE == 0 {
				t.Errorf("%s: got characteristics %#x for %#x, want a program for %#x", on, f.Characteristics, f.Machine, want)
			}
			if h, ok := f.OptionalHeader.(*pe.OptionalHeader64); !ok || h.Subsystem != pe.IMAGE_SUBSYSTEM_WINDOWS_CUI {
				t.Errorf("%s: the binary is not a program for the console", on)
			}
		}
	}
}

// No binary names a directory of the machine that built it.
func checkPaths(t *testing.T, p published) {
	c := compiler{goCommand: p.goCommand}
	dirs := []string{p.source.dir}
	for _, name := range []string{"GOMODCACHE", "GOCACHE"} {
		dir, err := output(c.command(t.Context(), "env", name))
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, strings.TrimSpace(string(dir)))
	}
	for _, on := range p.platforms {
		binary := p.binary(t, on)
		for _, dir := range dirs {
			if bytes.Contains(binary, []byte(dir+string(filepath.Separator))) {
				t.Errorf("the binary for %s names %s", on, dir)
			}
		}
	}
}
