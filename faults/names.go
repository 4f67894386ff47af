package faults

import (
	"slices"
	"strings"
	"syscall"

	"softrdma/internal/queue"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
)

// services are the names of services, with their bits of an opcode.
var services = map[string]ib.Transport{"rc": ib.RC, "uc": ib.UC, "ud": ib.UD, "xrc": ib.XRC}

// answers are the refusals that a responder can be made to give.
var answers = map[string]ib.Syndrome{
	"rnr": ib.RNRNAK, "sequence": ib.NAKSequence, "invalid request": ib.NAKInvalidRequest,
	"remote access": ib.NAKRemoteAccess, "remote operational": ib.NAKRemoteOperational,
}

// errnos are the error numbers that calls can be made to fail with.
var errnos = map[string]syscall.Errno{
	"E2BIG": syscall.E2BIG, "EACCES": syscall.EACCES, "EADDRINUSE": syscall.EADDRINUSE,
	"EADDRNOTAVAIL": syscall.EADDRNOTAVAIL, "EAFNOSUPPORT": syscall.EAFNOSUPPORT, "EAGAIN": syscall.EAGAIN,
	"EALREADY": syscall.EALREADY, "EBADF": syscall.EBADF, "EBUSY": syscall.EBUSY, "ECANCELED": syscall.ECANCELED,
	"ECONNABORTED": syscall.ECONNABORTED, "ECONNREFUSED": syscall.ECONNREFUSED, "ECONNRESET": syscall.ECONNRESET,
	"EDESTADDRREQ": syscall.EDESTADDRREQ, "EDOM": syscall.EDOM, "EEXIST": syscall.EEXIST, "EFAULT": syscall.EFAULT,
	"EHOSTUNREACH": syscall.EHOSTUNREACH, "EINPROGRESS": syscall.EINPROGRESS, "EINTR": syscall.EINTR,
	"EINVAL": syscall.EINVAL, "EIO": syscall.EIO, "EISCONN": syscall.EISCONN, "EMFILE": syscall.EMFILE,
	"EMSGSIZE": syscall.EMSGSIZE, "ENETDOWN": syscall.ENETDOWN, "ENETUNREACH": syscall.ENETUNREACH,
	"ENFILE": syscall.ENFILE, "ENOBUFS": syscall.ENOBUFS, "ENODEV": syscall.ENODEV, "ENOENT": syscall.ENOENT,
	"ENOMEM": syscall.ENOMEM, "ENOPROTOOPT": syscall.ENOPROTOOPT, "ENOSPC": syscall.ENOSPC, "ENOSYS": syscall.ENOSYS,
	"ENOTCONN": syscall.ENOTCONN, "ENOTSUP": syscall.ENOTSUP, "ENXIO": syscall.ENXIO,
	"EOPNOTSUPP": syscall.EOPNOTSUPP, "EPERM": syscall.EPERM, "EPIPE": syscall.EPIPE, "EPROTO": syscall.EPROTO,
	"EPROTONOSUPPORT": syscall.EPROTONOSUPPORT, "ERANGE": syscall.ERANGE, "EROFS": syscall.EROFS,
	"ESRCH": syscall.ESRCH, "ETIMEDOUT": syscall.ETIMEDOUT,
}

// events are the asynchronous events, by number.
var events = []string{
	"CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED", "PATH_MIG", "PATH_MIG_ERR",
	"DEVICE_FATAL", "PORT_ACTIVE", "PORT_ERR", "LID_CHANGE", "PKEY_CHANGE", "SM_CHANGE", "SRQ_ERR",
	"SRQ_LIMIT_REACHED", "QP_LAST_WQE_REACHED", "CLIENT_REREGISTER", "GID_CHANGE",
}

// messages are those of the connection manager.
var messages = func() (names []string) {
	for a := mad.AttrREQ; a.Known(); a++ {
		names = append(names, a.String())
	}
	return names
}()

// statuses are those of completions, by number, in lower case and without IBV_WC_.
var statuses = func() (names []string) {
	for s := range queue.Statuses {
		names = append(names, strings.ToLower(strings.TrimPrefix(s.String(), "IBV_WC_")))
	}
	return names
}()

// completions are the opcodes of completions, as ibv_wc_opcode has them.
var completions = []string{"send", "rdma_write", "rdma_read", "comp_swap", "fetch_add", "bind_mw", "local_inv", "recv", "recv_rdma_with_imm"}

const (
	familyNAK = "nak" // of acknowledges, which opcode does not tell
	familyACK = "ack"
	familyCM  = "cm"  // to queue pair 1
	familyMAD = "mad" // to queue pairs 0 and 1

	familyTerminate = "terminate" // of iWARP

	managerQPN = 1
)

// families are names of several opcodes.
var families = map[string][]ib.Kind{
	"send": {ib.KindSend}, "write": {ib.KindWrite, ib.KindAtomicWrite}, "read request": {ib.KindReadRequest},
	"read response": {ib.KindReadResponse}, "atomic": {ib.KindCompareSwap, ib.KindFetchAdd},
	"atomic response": {ib.KindAtomicAcknowledge}, "flush": {ib.KindFlush}, "cnp": {ib.KindCongestion},
	familyACK: {ib.KindAcknowledge, ib.KindSelectiveAck}, familyNAK: {ib.KindAcknowledge},
	familyCM: {ib.KindSend}, familyMAD: {ib.KindSend}, familyTerminate: nil,
}

// opcodes are the names of single opcodes: the specification's, in lower case and without "RDMA".
var opcodes = func() map[string]ib.Opcode {
	m := make(map[string]ib.Opcode)
	for o := range 256 {
		if o := ib.Opcode(o); o.Info() != nil {
			m[strings.ReplaceAll(strings.ToLower(o.String()), "rdma ", "")] = o
		}
	}
	return m
}()

// Values returns the names that a field of Rule or Selector may have, by the field's name in a file, nil if
// it may have any.
func Values(field string) []string {
	switch field {
	case "action":
		return actionNames
	case "direction":
		return []string{Sent, Received}
	case "part":
		return []string{"payload", "header"}
	case "icrc":
		return []string{"wrong", "right"}
	case "service":
		return sorted(services)
	case "opcode":
		all := append(sorted(families), sorted(opcodes)...)
		slices.Sort(all)
		return slices.Compact(all) // cnp is both
	case "answer":
		return sorted(answers)
	case "errno":
		return sorted(errnos)
	case "event":
		return events
	case "message":
		return messages
	case "status":
		return statuses
	case "completion":
		return completions
	case "command":
		return commands
	}
	return nil
}

func sorted[V any](m map[string]V) (names []string) {
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
