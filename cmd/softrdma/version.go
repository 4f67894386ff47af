package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/preload"
)

// version and commit are set by the linker (make dist). Otherwise they come from Go's
// build information.
var (
	version = ""
	commit  = ""
)

// unreleased is the version if no other is known.
const unreleased = "0.1.0-dev"

// A versionInfo describes this build.
type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"`     // of the commit
	Modified bool   `json:"modified,omitempty"` // the sources differed from the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Exec     bool   `json:"exec"` // contains the library of softrdma exec
}

func newVersionInfo() versionInfo {
	_, err := preload.Library()
	v := versionInfo{Version: version, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Exec: err == nil}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.fill(info)
	}
	if v.Version == "" {
		v.Version = unreleased
	}
	return v
}

// fill adds from Go's build information what the linker did not set.
func (v *versionInfo) fill(info *debug.BuildInfo) {
	if v.Version == "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	if v.Commit != "" {
		v.Modified = strings.HasSuffix(v.Version, "-dirty")
		return
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
}

func (v versionInfo) print(w io.Writer) {
	from := "unknown"
	if v.Commit != "" {
		from = v.Commit
		if v.Time != "" {
			from += " of " + v.Time
		}
		if v.Modified {
			from += ", modified"
		}
	}
	exec := "no: this build does not contain the preload library"
	if v.Exec {
		exec = "yes"
	}
	fmt.Fprintf(w, "softrdma %s\ncommit    %s\ngo        %s\nplatform  %s\nexec      %s\n", v.Version, from, strings.TrimPrefix(v.Go, "go"), v.Platform, exec)
}

// buildVersion returns the version in one line.
func buildVersion() string {
	v := newVersionInfo()
	return fmt.Sprintf("%s (%s %s)", v.Version, v.Go, v.Platform)
}

func newVersionCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version, commit, Go version and platform of this build",
		Long: `Prints the version of this build, its commit, the Go version, the platform, and
whether it contains the library that softrdma exec needs.`,
		Example: `  softrdma version
  softrdma version --json`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := newVersionInfo()
			if !asJSON {
				v.print(cmd.OutOrStdout())
				return nil
			}
			return cli.WriteJSON(cmd.OutOrStdout(), v)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
