package main

import (
	"errors"
	"os"
	"sync"
)

// outputs keeps the first failure of what this process writes, to standard
// output or to captures. Commands print and close in many places, some of which
// have no use for an error; execute makes it the command's.
var outputs struct {
	sync.Mutex
	err error
}

// outputFailed takes note of an error of an output, and gives it back.
func outputFailed(err error) error {
	outputs.Lock()
	defer outputs.Unlock()
	if outputs.err == nil {
		outputs.err = err
	}
	return err
}

// withOutputs is err together with the failure of an output that it does not
// tell of.
func withOutputs(err error) error {
	outputs.Lock()
	defer outputs.Unlock()
	if outputs.err == nil || errors.Is(err, outputs.err) {
		return err
	}
	return errors.Join(err, outputs.err)
}

// A checkedOutput is standard output.
type checkedOutput struct{ *os.File }

func (o checkedOutput) Write(b []byte) (int, error) {
	n, err := o.File.Write(b)
	if err != nil {
		err = outputFailed(err)
	}
	return n, err
}
