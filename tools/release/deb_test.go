package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// dpkg, systemd, the shells and man accept the Debian packages.
func checkDeb(t *testing.T, p published) {
	for _, on := range p.platforms {
		if on.os != "linux" {
			continue
		}
		t.Run(on.arch, func(t *testing.T) {
			file := filepath.Join(p.dir, "rehop_"+p.version.debian()+"_"+on.arch+".deb")
			checkControl(t, p, on, file)
			checkDebFiles(t, p, file)
			root, control := filepath.Join(t.TempDir(), "root"), filepath.Join(t.TempDir(), "control")
			dpkg(t, "-x", file, root)
			dpkg(t, "-e", file, control)
			t.Run("unit", func(t *testing.T) { checkDebUnit(t, root) })
			t.Run("manual", func(t *testing.T) { checkManual(t, filepath.Join(root, "usr/share/man/man1/rehop.1.gz")) })
			t.Run("completions", func(t *testing.T) { checkCompletions(t, root) })
			t.Run("sums", func(t *testing.T) { checkSums(t, root, control) })
			if on == hostPlatform() {
				checkConfig(t, root)
			}
		})
	}
}

func dpkg(t *testing.T, args ...string) string {
	t.Helper()
	return execute(t, exec.Command(tool(t, "dpkg-deb", "it comes with the Debian package dpkg"), args...))
}

// execute runs a program that has to succeed, and returns all that it printed.
func execute(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}

// checkControl sees what dpkg reads of the package without unpacking it.
func checkControl(t *testing.T, p published, on platform, file string) {
	t.Helper()
	fields := dpkg(t, "-I", file)
	for _, want := range []string{" Package: rehop\n", " Version: " + p.version.debian() + "\n", " Architecture: " + on.arch + "\n", " Depends: adduser\n"} {
		if !strings.Contains(fields, want) {
			t.Errorf("dpkg-deb -I does not have %q:\n%s", want, fields)
		}
	}
	if strings.Contains(fields, "$") {
		t.Errorf("a variable of debian/control has no value:\n%s", fields)
	}
	if got, want := dpkg(t, "-I", file, "conffiles"), "/etc/rehop/environment\n/etc/rehop/rehop.yaml\n"; got != want {
		t.Errorf("got conffiles %q, want %q", got, want)
	}
}

// checkDebFiles sees which files the package installs, with which rights.
func checkDebFiles(t *testing.T, p published, file string) {
	t.Helper()
	data, err := exec.Command(tool(t, "dpkg-deb", "it comes with the Debian package dpkg"), "--fsys-tarfile", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	files := untar(t, strings.NewReader(string(data)))
	sameOwners(t, p, files)
	modes := map[string]string{
		"./usr/bin/rehop": "-rwxr-xr-x", "./etc/rehop/rehop.yaml": "-rw-r--r--", "./etc/rehop/environment": "-rw-------",
		"./usr/lib/systemd/system/rehop.service": "-rw-r--r--", "./usr/share/man/man1/rehop.1.gz": "-rw-r--r--",
		"./usr/share/doc/rehop/copyright": "-rw-r--r--", "./usr/share/doc/rehop/changelog.gz": "-rw-r--r--",
		"./usr/share/doc/rehop/LICENSES.txt": "-rw-r--r--", "./usr/share/doc/rehop/examples/rehop.yaml": "-rw-r--r--",
	}
	listing := dpkg(t, "-c", file)
	for _, f := range files {
		if !strings.Contains(listing, " "+f.name+"\n") {
			t.Errorf("dpkg-deb -c does not have %s", f.name)
		}
		if want := modes[f.name]; want != "" && f.mode.String() != want {
			t.Errorf("%s has the mode %v, want %s", f.name, f.mode, want)
		}
		delete(modes, f.name)
		if f.mode.IsDir() && f.mode.Perm() != 0o755 {
			t.Errorf("the directory %s has the mode %v, want 0755", f.name, f.mode)
		}
	}
	if len(modes) > 0 {
		t.Errorf("the package does not have %v", modes)
	}
}

// systemd accepts the unit, which starts the binary of the package as the user of the package.
func checkDebUnit(t *testing.T, root string) {
	unit := string(readFile(t, filepath.Join(root, "usr/lib/systemd/system/rehop.service")))
	for _, want := range []string{"\nExecStart=/usr/bin/rehop up /etc/rehop/rehop.yaml ", "\nUser=rehop\nGroup=rehop\n", "\nStateDirectory=rehop\n", "\nWorkingDirectory=%S/rehop\n"} {
		if !strings.Contains(unit, want) {
			t.Errorf("the unit does not have %q:\n%s", want, unit)
		}
	}
	if strings.Contains(unit, "/usr/local/") || strings.Contains(unit, "DynamicUser") {
		t.Errorf("the unit is that of an installation without the package:\n%s", unit)
	}
	// The program has to exist, and rehop is not installed. Its name has no spaces, as that of a directory of this test may have.
	program := filepath.Join(t.TempDir(), "rehop")
	if err := os.Symlink(filepath.Join(root, "usr/bin/rehop"), program); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rehop.service")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(unit, "/usr/bin/rehop ", program+" ")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(tool(t, "systemd-analyze", "it comes with systemd"), "verify", "--man=no", path).CombinedOutput()
	if err != nil || strings.Contains(string(out), path) {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// man shows the manual without warnings, and finds its name.
func checkManual(t *testing.T, file string) {
	cmd := exec.Command(tool(t, "man", "it comes with the Debian package man-db"), "--warnings", "-E", "UTF-8", "-l", file)
	cmd.Env = append(os.Environ(), "MANWIDTH=80", "LC_ALL=C.UTF-8", "MANROFFSEQ=")
	text := execute(t, cmd)
	for _, want := range []string{"rehop - reliable messaging for RabbitMQ", "rehop failed replay", "--connect-timeout duration"} {
		if !strings.Contains(text, want) {
			t.Errorf("the manual does not have %q", want)
		}
	}
	if strings.Contains(text, "warning:") {
		t.Errorf("the manual has warnings:\n%.2000s", text)
	}
}

// The completions are scripts that their shells can read.
func checkCompletions(t *testing.T, root string) {
	script := filepath.Join(root, "usr/share/bash-completion/completions/rehop")
	execute(t, exec.Command(tool(t, "bash", "it is the shell of make"), "-n", script))
	for name, want := range map[string]string{
		"usr/share/zsh/vendor-completions/_rehop":        "#compdef rehop\n",
		"usr/share/fish/vendor_completions.d/rehop.fish": "# fish completion for rehop",
	} {
		if text := string(readFile(t, filepath.Join(root, name))); !strings.HasPrefix(text, want) {
			t.Errorf("%s begins with %.40q, want %q", name, text, want)
		}
	}
}

// The checksums, with which dpkg --verify finds changed files, are those of all files but the conffiles.
func checkSums(t *testing.T, root, control string) {
	cmd := exec.Command(tool(t, "md5sum", "it comes with coreutils"), "--strict", "--quiet", "-c", filepath.Join(control, "md5sums"))
	cmd.Dir = root
	execute(t, cmd)
	sums := string(readFile(t, filepath.Join(control, "md5sums")))
	if !strings.Contains(sums, "  usr/bin/rehop\n") || strings.Contains(sums, "etc/rehop") {
		t.Errorf("got checksums of\n%s", sums)
	}
}

// rehop accepts the file of the package.
func checkConfig(t *testing.T, root string) {
	t.Helper()
	execute(t, exec.Command(filepath.Join(root, "usr/bin/rehop"), "check", filepath.Join(root, "etc/rehop/rehop.yaml")))
	execute(t, exec.Command(filepath.Join(root, "usr/bin/rehop"), "check", filepath.Join(root, "usr/share/doc/rehop/examples/rehop.yaml")))
}

// What the scripts of the package run when it is installed, upgraded, removed and purged.
func TestDebScripts(t *testing.T) {
	if runtime.GOOS == "windows" {
		missing(t, "the scripts of a Debian package need a shell")
	}
	const (
		create = "adduser --quiet --system --group --no-create-home --home /var/lib/rehop --gecos rehop rehop"
		reload = "systemctl --system daemon-reload"
	)
	for name, c := range map[string]struct {
		script  []byte
		args    []string
		systemd bool
		known   bool // there is a user rehop
		want    []string
	}{
		"install":                 {debPostinst, []string{"configure", ""}, true, false, []string{"getent passwd rehop", create, reload}},
		"install without systemd": {debPostinst, []string{"configure", ""}, false, false, []string{"getent passwd rehop", create}},
		"upgrade":                 {debPostinst, []string{"configure", "0.1.0"}, true, true, []string{"getent passwd rehop", reload, "systemctl try-restart rehop.service"}},
		"abort":                   {debPostinst, []string{"abort-upgrade", "0.1.0"}, true, true, nil},
		"stop for an upgrade":     {debPrerm, []string{"upgrade", "0.2.0"}, true, true, nil},
		"stop":                    {debPrerm, []string{"remove"}, true, true, []string{"systemctl --no-reload disable --now rehop.service"}},
		"stop without systemd":    {debPrerm, []string{"remove"}, false, true, nil},
		"remove":                  {debPostrm, []string{"remove"}, true, true, []string{reload}},
		"purge":                   {debPostrm, []string{"purge"}, true, true, []string{"rm -rf /var/lib/rehop"}},
		"removed for an upgrade":  {debPostrm, []string{"upgrade", "0.2.0"}, true, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := recorded(t, string(c.script), c.args, c.systemd, c.known); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// recorded runs a script with programs that only write down how they were called. No other program can be found.
func recorded(t *testing.T, script string, args []string, systemd, known bool) []string {
	t.Helper()
	dir := t.TempDir()
	log, running := filepath.Join(dir, "log"), filepath.Join(dir, "systemd")
	if systemd {
		if err := os.Mkdir(running, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"adduser", "getent", "systemctl", "rm"} {
		exit := "0"
		if program == "getent" && !known {
			exit = "2"
		}
		text := "#!/bin/sh\necho " + program + ` "$@" >> '` + log + "'\nexit " + exit + "\n"
		if err := os.WriteFile(filepath.Join(dir, program), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "script")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(script, "/run/systemd/system", running)), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(file, args...)
	cmd.Env = []string{"PATH=" + dir}
	execute(t, cmd)
	text, err := os.ReadFile(log)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// A unit without what the package replaces is refused, because the package would not start.
func TestDebUnitRefused(t *testing.T) {
	for name, unit := range map[string]string{
		"sections": "DynamicUser=yes\n",
		"program":  "[Unit]\n[Service]\nExecStart=/opt/rehop up\nDynamicUser=yes\n",
		"user":     "[Unit]\n[Service]\nExecStart=/usr/local/bin/rehop up\nUser=nobody\n",
	} {
		if got, err := debUnit(unit); err == nil {
			t.Errorf("%s: got %q, want an error", name, got)
		}
	}
}
