// Command release builds everything that a version of rehop consists of: binaries for linux, macOS and Windows in archives, an SBOM
// for each binary, Debian packages, an OCI image, and their checksums.
//
//	release -root .. -out ../dist -version v0.1.0
//
// The same commit gives the same bytes, whoever builds it and in whatever directory, with the same version of Go and the same
// -certificates. All times are that of the commit, or $SOURCE_DATE_EPOCH.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	r := release{platforms: allPlatforms(), log: os.Stderr}
	root := flag.String("root", ".", "`directory` of the checkout")
	flag.StringVar(&r.out, "out", "dist", "`directory` for what is built; it is created, or must be empty")
	flag.StringVar(&r.goCommand, "go", "go", "the go `command`")
	flag.StringVar(&r.certificates, "certificates", "/etc/ssl/certs/ca-certificates.crt", "`file` with the certificates of authorities, for the image")
	flag.Func("version", "`version` to build, as in v0.1.0", func(text string) (err error) {
		r.version, err = parseVersion(text)
		return err
	})
	flag.Func("platforms", "`list` of platforms, separated by commas (default all)", func(list string) error {
		r.platforms = nil
		for text := range strings.SplitSeq(list, ",") {
			p, err := parsePlatform(text)
			if err != nil {
				return err
			}
			r.platforms = append(r.platforms, p)
		}
		return nil
	})
	flag.Parse()
	if r.version == "" {
		return fmt.Errorf("no version: name one, as in make release VERSION=v0.1.0")
	}
	var err error
	if r.source, err = openSource(ctx, *root, r.version, os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		return err
	}
	return r.build(ctx)
}
