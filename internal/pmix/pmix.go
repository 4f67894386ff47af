// Package pmix is a client of the PMIx server that a launcher of parallel programs, such as
// Open MPI's mpirun and Slurm's srun, runs on each host. It publishes a value of this program,
// waits for all programs of the job, and reads the values of others. It speaks formats of
// OpenPMIx, which no standard describes; docs/coll.md says which. It starts no programs and
// has no server.
package pmix

import (
	"errors"
	"fmt"
)

// The errors of this package.
var (
	// ErrAbsent is returned if no PMIx server has started the program.
	ErrAbsent = errors.New("pmix: no server in the environment")
	// ErrEnvironment is matched by errors about invalid variables.
	ErrEnvironment = errors.New("pmix: invalid environment")
	// ErrVersion is matched by errors about a server with an unsupported protocol.
	ErrVersion = errors.New("pmix: unknown version of the server")
	// ErrRefused is matched by errors about a server that refuses this program.
	ErrRefused = errors.New("pmix: server refuses the connection")
	// ErrMessage is matched by errors about invalid messages of a server.
	ErrMessage = errors.New("pmix: invalid message")
)

// A Status is the error code of a server that did not execute a request.
type Status int32

// statuses are the names of the codes that a correct program may get.
var statuses = map[Status]string{
	-1: "PMIX_ERROR", -11: "PMIX_ERR_EXISTS", -12: "PMIX_ERR_INVALID_CRED", -20: "PMIX_ERR_UNPACK_FAILURE",
	-23: "PMIX_ERR_NO_PERMISSIONS", -24: "PMIX_ERR_TIMEOUT", -25: "PMIX_ERR_UNREACH", -27: "PMIX_ERR_BAD_PARAM",
	-29: "PMIX_ERR_OUT_OF_RESOURCE", -31: "PMIX_ERR_INIT", -32: "PMIX_ERR_NOMEM", -46: "PMIX_ERR_NOT_FOUND",
	-47: "PMIX_ERR_NOT_SUPPORTED", -49: "PMIX_ERR_COMM_FAILURE", -61: "PMIX_ERR_LOST_CONNECTION",
}

func (s Status) Error() string {
	if name := statuses[s]; name != "" {
		return fmt.Sprintf("pmix: server answers %s (%d)", name, int32(s))
	}
	return fmt.Sprintf("pmix: server answers status %d", int32(s))
}
