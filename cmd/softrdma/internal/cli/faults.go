package cli

import (
	"errors"
	"fmt"

	"softrdma/faults"
	"softrdma/faults/file"
)

// Faults are the rules of the file of --faults.
type Faults struct {
	Rules  faults.Rules
	locate func(error) error
}

// ReadFaults reads the file of --faults.
func ReadFaults(path string) (*Faults, error) {
	r, locate, err := file.ReadFor(path)
	if err != nil {
		return nil, faultsError(err)
	}
	return &Faults{r, locate}, nil
}

// Refused gives the error with which a device refuses a rule the rule's place in the file. It returns others
// unchanged.
func (f *Faults) Refused(err error) error {
	if e := (*faults.Error)(nil); errors.As(err, &e) {
		return faultsError(f.locate(err))
	}
	return err
}

// faultsError is a usage error that the help of rules explains, not that of the command.
func faultsError(err error) error {
	return &ExitError{code: ExitUsage, err: fmt.Errorf("--%s: %w", faultsFlag, err), help: "softrdma fault"}
}

// Help returns the command whose help explains a usage error of another command.
func Help(err error, command string) string {
	if e := (*ExitError)(nil); errors.As(err, &e) && e.help != "" {
		return e.help
	}
	return command
}
