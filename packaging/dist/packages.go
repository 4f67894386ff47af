package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

const summary = "RDMA on any network adapter, in user space"

const description = `A complete RDMA stack that needs no RDMA hardware and no kernel module:
RoCE v1 and v2, iWARP, and InfiniBand on a fabric in software. It gives a
device to unmodified programs of libibverbs and librdmacm.`

// info describes the package of a system, except for its format.
func (d *distribution) info(s system) (*nfpm.Info, error) {
	seconds, err := strconv.ParseInt(d.date, 10, 64)
	if err != nil {
		return nil, err
	}
	return &nfpm.Info{
		Name: "softrdma", Arch: s.arch, Version: d.packageVersion(), VersionSchema: "none", MTime: time.Unix(seconds, 0).UTC(),
		Section: "net", Priority: "optional", Maintainer: d.maintainer, DisableGlobbing: true,
		Overridables: nfpm.Overridables{Umask: 0o22},
	}, nil
}

// packageVersion returns the version in an order that package managers know: before a release
// if there is none yet, and after the last one otherwise.
func (d *distribution) packageVersion() string {
	release, more, _ := strings.Cut(d.version, "-")
	switch {
	case more == "":
		return release
	case strings.HasPrefix(more, "dev."):
		release += "~"
	default:
		release += "+"
	}
	return release + strings.ReplaceAll(more, "-", ".")
}

// packages writes the packages of a system from the files of its archive. The command is
// static, so nothing is required. Programs under softrdma exec bring libibverbs, but not
// always its providers.
func (d *distribution) packages(s system, list []file) error {
	return errors.Join(d.debian(s, list), d.fedora(s, list))
}

// debian writes the package for Debian and its kind.
func (d *distribution) debian(s system, list []file) error {
	info, err := d.info(s)
	if err != nil {
		return err
	}
	info.Description = summary + "\n" + description
	info.Recommends = []string{"ibverbs-providers (>= 33)", "librdmacm1 (>= 33)"}
	own := filepath.Join(d.root, "packaging", "package", "deb")
	info.Scripts = nfpm.Scripts{PostInstall: filepath.Join(own, "postinst"), PreRemove: filepath.Join(own, "prerm"), PostRemove: filepath.Join(own, "postrm")}
	info.Deb.Compression = "xz"

	changes := filepath.Join(d.out, "packages", "changelog")
	text := fmt.Sprintf("softrdma (%s) unstable; urgency=medium\n\n  * Commit %s.\n\n -- %s  %s\n",
		info.Version, d.commit, d.maintainer, info.MTime.Format(time.RFC1123Z))
	if err := errors.Join(os.MkdirAll(filepath.Dir(changes), 0o755), os.WriteFile(changes, []byte(text), 0o644)); err != nil {
		return err
	}
	list = append([]file{
		{path: "/usr/share/doc/softrdma/changelog.gz", source: changes},
		{path: "/usr/share/doc/softrdma/copyright", source: filepath.Join(own, "copyright")},
		{path: "/usr/share/lintian/overrides/softrdma", source: filepath.Join(own, "lintian-overrides")},
	}, list...)
	return d.write(s, "deb", deb.Default, info, list, map[string]string{
		licencesName: "/usr/share/doc/softrdma/" + licencesName + ".gz", "completions/zsh/": "/usr/share/zsh/vendor-completions/",
	})
}

// fedora writes the package for Fedora and its kind.
func (d *distribution) fedora(s system, list []file) error {
	info, err := d.info(s)
	if err != nil {
		return err
	}
	info.Description, info.License = description, "Apache-2.0"
	info.Recommends = []string{"libibverbs", "librdmacm"}
	own := filepath.Join(d.root, "packaging", "package", "rpm")
	info.Scripts = nfpm.Scripts{PostInstall: filepath.Join(own, "post"), PreRemove: filepath.Join(own, "preun"), PostRemove: filepath.Join(own, "postun")}
	info.Contents = files.Contents{{Destination: "/usr/share/licenses/softrdma", Type: files.TypeDir, FileInfo: &files.ContentFileInfo{Mode: 0o755}}}
	info.RPM = nfpm.RPM{Compression: "xz", BuildHost: "localhost", Summary: summary, Packager: d.maintainer}
	return d.write(s, "rpm", rpm.DefaultRPM, info, list, map[string]string{
		"LICENSE": "/usr/share/licenses/softrdma/LICENSE", licencesName: "/usr/share/licenses/softrdma/" + licencesName,
		"completions/zsh/": "/usr/share/zsh/site-functions/",
	})
}

// places are where distributions have the files and folders of an archive.
var places = map[string]string{
	"softrdma": "/usr/bin/softrdma", "man/man1/": "/usr/share/man/man1/", "systemd/": "/usr/lib/systemd/system/",
	"completions/bash/": "/usr/share/bash-completion/completions/", "completions/fish/": "/usr/share/fish/vendor_completions.d/",
}

// write writes a package with the files that have a place.
func (d *distribution) write(s system, format string, packager nfpm.Packager, info *nfpm.Info, list []file, others map[string]string) error {
	for _, f := range list {
		to := f.path
		if !path.IsAbs(to) {
			dir, base := path.Split(f.path)
			for _, m := range []map[string]string{places, others} {
				if at := m[f.path]; at != "" {
					to = at
				} else if at := m[dir]; at != "" {
					to = at + base
				}
			}
			if to == f.path {
				continue
			}
			if dir == "man/man1/" {
				to += ".gz"
			}
		}
		source, err := d.stage(filepath.Join(d.out, "packages", s.String(), format, to), f.source)
		if err != nil {
			return err
		}
		c := &files.Content{Source: source, Destination: to, FileInfo: &files.ContentFileInfo{Mode: os.FileMode(f.mode())}}
		switch {
		case format == "rpm" && strings.HasPrefix(to, "/usr/share/man/"):
			c.Type = files.TypeRPMDoc
		case format == "rpm" && strings.HasPrefix(to, "/usr/share/licenses/"):
			c.Type = files.TypeRPMLicense
		}
		info.Contents = append(info.Contents, c)
	}
	info = nfpm.WithDefaults(info)
	name := packager.ConventionalFileName(info)
	fmt.Println(name)
	var b bytes.Buffer
	if err := packager.Package(info, &b); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(filepath.Join(d.out, name), b.Bytes(), 0o644)
}

// stage writes what a package has of a file: compressed if its name says so, and with the
// paths of a distribution.
func (d *distribution) stage(name, source string) (string, error) {
	data, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	switch filepath.Ext(name) {
	case ".gz":
		var b bytes.Buffer
		z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			return "", err
		}
		if _, err := z.Write(data); err != nil {
			return "", err
		}
		if err := z.Close(); err != nil {
			return "", err
		}
		data = b.Bytes()
	case ".service":
		data = bytes.ReplaceAll(data, []byte("/usr/local/bin/"), []byte("/usr/bin/"))
	}
	return name, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, data, 0o644))
}
