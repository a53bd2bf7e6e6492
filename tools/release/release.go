package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// release is one version of rehop, and how to build it.
type release struct {
	version      version
	source       source
	platforms    []platform
	goCommand    string
	certificates string // file
	out          string // directory
	log          io.Writer
}

// build writes all files of the release.
func (r release) build(ctx context.Context) (err error) {
	if err := emptyDir(r.out); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "rehop-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	c, err := newCompiler(ctx, r.goCommand, r.source, r.version, work)
	if err != nil {
		return err
	}
	image, err := r.newImage()
	if err != nil {
		return err
	}
	with, err := r.companions(ctx, c, work)
	if err != nil {
		return err
	}
	for _, p := range r.platforms {
		binary, err := r.compile(ctx, c, p, work)
		if err != nil {
			return err
		}
		// Not every platform needs the same modules.
		if with.licenses, err = c.licenses(ctx, binaryFile(work, p)); err != nil {
			return err
		}
		if err := r.pack(p, binary, with, image); err != nil {
			return fmt.Errorf("pack %s: %w", p, err)
		}
	}
	if image.platforms() > 0 {
		if err := r.write(image.archive()); err != nil {
			return fmt.Errorf("write the image: %w", err)
		}
	}
	return writeChecksums(r.out)
}

// emptyDir creates a directory, or sees that there is nothing in it that would pass for a part of the release.
func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, err := os.ReadDir(dir)
	if err == nil && len(files) > 0 {
		err = fmt.Errorf("%s is not empty; remove it first", dir)
	}
	return err
}

// companions uses a binary for this machine, which may be none of the release's platforms.
func (r release) companions(ctx context.Context, c compiler, work string) (companions, error) {
	host := hostPlatform()
	if _, err := r.compile(ctx, c, host, work); err != nil {
		return companions{}, err
	}
	return newCompanions(ctx, r.source, r.version, binaryFile(work, host))
}

func binaryFile(work string, p platform) string {
	return filepath.Join(work, p.os+"_"+p.arch, p.program())
}

// compile returns the binary for a platform, and builds it unless that was done.
func (r release) compile(ctx context.Context, c compiler, p platform, work string) ([]byte, error) {
	to := binaryFile(work, p)
	if _, err := os.Stat(to); err != nil {
		fmt.Fprintf(r.log, "build %s\n", p)
		if err := c.compile(ctx, p, to); err != nil {
			return nil, fmt.Errorf("build %s: %w", p, err)
		}
	}
	return os.ReadFile(to)
}

// pack writes what the release has for a platform.
func (r release) pack(p platform, binary []byte, with companions, image *image) error {
	list, err := sbom(binary, r.version, r.source)
	if err := r.write(fmt.Sprintf("rehop_%s_%s_%s.cdx.json", r.version.number(), p.os, p.arch), list, err); err != nil {
		return err
	}
	if err := r.write(r.archive(p, binary, with)); err != nil {
		return err
	}
	if p.os != "linux" {
		return nil
	}
	if err := r.write(r.deb(p.arch, binary, with)); err != nil {
		return err
	}
	return image.add(p.arch, binary)
}

// write writes a file of the release. It takes what the functions that make files return.
func (r release) write(name string, data []byte, err error) error {
	if err != nil {
		return err
	}
	fmt.Fprintf(r.log, "write %s\n", name)
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}
