package main

import (
	"errors"
	"os"
	"sync"
)

// outputs keeps the first failure of what this process writes, to standard output or
// to captures. Commands print and close in many places, some of which cannot return
// an error; execute reports the failure as the command's error.
var outputs struct {
	sync.Mutex
	err error
}

// outputFailed records an error of an output and returns it.
func outputFailed(err error) error {
	outputs.Lock()
	defer outputs.Unlock()
	if outputs.err == nil {
		outputs.err = err
	}
	return err
}

// withOutputs joins err with an output failure that err does not include.
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
