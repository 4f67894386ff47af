package exec

import (
	"errors"
	"os"
	"path/filepath"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/ondemand"
	"softrdma/internal/sanitize"
)

// prepare checks the flags and completes an environment. Dir is where findings are kept unless the user
// has named a file, "" if this command does not read them.
func (o *sanitizeOptions) prepare(env *ondemand.Environment, e engine, dir string) error {
	if o.rules == "" {
		if o.suppressions != "" || o.json != "" {
			return cli.UsageErrorf("--suppressions and --sanitize-json: expected --sanitize as well")
		}
		return nil
	}
	if _, err := sanitize.ParseRules(o.rules); err != nil {
		return cli.UsageErrorf("--sanitize: %v", err)
	}
	if e == engineDaemon {
		return cli.UsageErrorf("--sanitize: expected a device in the program's own process, found --engine %s", e)
	}
	env.Sanitize, env.Required = o.rules, true // another engine does not see what the program does
	if err := o.findSuppressions(env); err != nil {
		return err
	}
	var err error
	switch {
	case o.json != "":
		env.Findings, err = filepath.Abs(o.json)
	case dir != "":
		env.Findings = filepath.Join(dir, "findings")
	}
	return err
}

func (o *sanitizeOptions) findSuppressions(env *ondemand.Environment) error {
	if o.suppressions == "" {
		return nil
	}
	text, err := os.ReadFile(o.suppressions)
	if err != nil {
		return cli.UsageErrorf("--suppressions: %v", err)
	}
	if _, err := sanitize.ParseSuppressions(string(text)); err != nil {
		return cli.UsageErrorf("--suppressions: %s: %v", o.suppressions, err)
	}
	env.Suppressions, err = filepath.Abs(o.suppressions)
	return err
}

// findingsSize returns the length of the file of findings.
func findingsSize(env *ondemand.Environment) int64 {
	info, err := os.Stat(env.Findings)
	if env.Findings == "" || err != nil {
		return 0
	}
	return info.Size()
}

// judge returns the error of a program whose file of findings has grown, if the program has none itself.
func (o *sanitizeOptions) judge(env *ondemand.Environment, before int64, err error) error {
	if findingsSize(env) <= before || err != nil && !errors.Is(err, cli.ErrSignalled) {
		return err
	}
	return cli.ProgramError(o.exit, errors.New("the sanitizer has found mistakes, which are printed above"))
}
