// Command dist builds softrdma's release files: for each system an archive with the
// command, its licence, manual pages and completions, and a list of the command's modules
// (SBOM); for Linux packages for Debian (deb) and for Fedora and its kind (rpm); and the
// checksums of all files.
//
// The build is reproducible: the same commit, Go version and preload libraries give the
// same bytes, without times, user names or paths of the machine.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

// A system is an operating system and architecture for which an archive is built.
type system struct{ os, arch string }

func (s system) String() string { return s.os + "-" + s.arch }

// program returns the command's file name.
func (s system) program() string {
	if s.os == "windows" {
		return "softrdma.exe"
	}
	return "softrdma"
}

var systems = []system{
	{"linux", "amd64"}, {"linux", "arm64"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

// A distribution is one run of the command.
type distribution struct {
	root    string // of the repository
	out     string // output directory
	version string
	commit  string
	date    string // of the commit, in seconds since 1970, for the manual pages and packages

	maintainer string // of the packages
}

const defaultMaintainer = "softrdma <softrdma@example.org>"

func main() {
	root := flag.String("root", "..", "the repository's `DIRECTORY`")
	out := flag.String("out", "../bin/dist", "`DIRECTORY` to create; an existing one is replaced")
	only := flag.String("only", "", "build archives only for these `SYSTEMS`, such as linux-amd64,darwin-arm64")
	maintainer := flag.String("maintainer", defaultMaintainer, "who answers for the packages: `NAME <ADDRESS>`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *root, *out, *only, *maintainer); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, out, only, maintainer string) error {
	wanted, err := choose(only)
	if err != nil {
		return err
	}
	d := &distribution{maintainer: maintainer}
	if d.root, err = filepath.Abs(root); err != nil {
		return err
	}
	if d.out, err = filepath.Abs(out); err != nil {
		return err
	}
	if err := d.describe(ctx); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(d.out), os.MkdirAll(d.out, 0o755)); err != nil {
		return err
	}
	texts, err := d.texts(ctx)
	if err != nil {
		return err
	}
	for _, s := range wanted {
		if err := d.make(ctx, s, texts); err != nil {
			return fmt.Errorf("%v: %w", s, err)
		}
	}
	if err := d.context(); err != nil {
		return err
	}
	return d.sums()
}

// context completes the folder of the programs, which is the build context of the
// container image.
func (d *distribution) context() error {
	licence, err := os.ReadFile(filepath.Join(d.root, "LICENSE"))
	if err != nil {
		return err
	}
	programs := filepath.Join(d.out, "programs")
	return errors.Join(
		os.WriteFile(filepath.Join(programs, "LICENSE"), licence, 0o644),
		os.WriteFile(filepath.Join(programs, "VERSION"), []byte(d.version+"\n"), 0o644))
}

// choose returns the systems in a list of names, or all systems if the list is empty.
func choose(only string) ([]system, error) {
	if only == "" {
		return systems, nil
	}
	var wanted []system
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(systems, func(s system) bool { return s.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("-only: expected some of %v, found %q", systems, name)
		}
		wanted = append(wanted, systems[i])
	}
	return wanted, nil
}

// describe determines the version, from the last tag such as v1.2.3, and the commit of
// the sources. It fails outside a git repository.
func (d *distribution) describe(ctx context.Context) (err error) {
	if d.commit, err = output(ctx, d.root, "git", "rev-parse", "HEAD"); err != nil {
		return fmt.Errorf("get the version from git: %w", err)
	}
	if d.date, err = output(ctx, d.root, "git", "log", "-1", "--format=%ct"); err != nil {
		return err
	}
	v, err := output(ctx, d.root, "git", "describe", "--tags", "--match", "v[0-9]*", "--always", "--dirty", "--abbrev=12")
	if !strings.HasPrefix(v, "v") {
		v = "0.1.0-dev." + v // no release yet
	}
	d.version = strings.TrimPrefix(v, "v")
	return err
}

// output runs a program and returns its output without the last newline.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	return outputWith(ctx, nil, dir, name, args...)
}

func outputWith(ctx context.Context, env []string, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), env...), os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// name returns the base name of a system's files.
func (d *distribution) name(s system) string { return fmt.Sprintf("softrdma-%s-%v", d.version, s) }

// make builds the command for a system and writes its archive and module list.
func (d *distribution) make(ctx context.Context, s system, texts []file) error {
	program := filepath.Join(d.out, "programs", s.String(), s.program())
	if err := d.build(ctx, s, program); err != nil {
		return err
	}
	list, err := d.components(program, s)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(d.out, d.name(s)+".cdx.json"), list, 0o644); err != nil {
		return err
	}
	licences, err := d.licences(ctx, program)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(d.out, "programs", s.String(), licencesName), licences, 0o644); err != nil {
		return err
	}
	files := []file{
		{path: s.program(), source: program, executable: true},
		{path: licencesName, source: filepath.Join(d.out, "programs", s.String(), licencesName)},
	}
	for _, f := range texts {
		if f.linux && s.os != "linux" {
			continue
		}
		files = append(files, f)
	}
	fmt.Println(d.name(s))
	if s.os == "windows" {
		return writeZip(filepath.Join(d.out, d.name(s)+".zip"), d.name(s), files)
	}
	if err := writeTar(filepath.Join(d.out, d.name(s)+".tar.gz"), d.name(s), files); err != nil || s.os != "linux" {
		return err
	}
	return d.packages(s, files)
}

// build compiles the command.
func (d *distribution) build(ctx context.Context, s system, program string) error {
	stamp := fmt.Sprintf("-s -w -X main.version=%s -X main.commit=%s", d.version, d.commit)
	_, err := outputWith(ctx, []string{"CGO_ENABLED=0", "GOOS=" + s.os, "GOARCH=" + s.arch, "GOFLAGS="}, d.root,
		"go", "build", "-tags", "kubernetes", "-trimpath", "-buildvcs=false", "-ldflags", stamp, "-o", program, "./cmd/softrdma")
	return err
}

// sumsName is the file of checksums, in the format of sha256sum -c.
const sumsName = "SHA256SUMS"

// sums writes the file of checksums.
func (d *distribution) sums() error {
	entries, err := os.ReadDir(d.out)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(d.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return os.WriteFile(filepath.Join(d.out, sumsName), []byte(b.String()), 0o644)
}
