// Package status has the statuses of NVMe's commands, with the names of Linux.
package status

import (
	"fmt"
	"slices"
)

// A Status is how a command has ended: the code in bits 7:0, its type in bits 10:8, and flags. It is
// the status field of a completion without the phase bit. Names and numbers are those of Linux.
type Status uint16

// Flags of a Status.
const (
	More       Status = 1 << 13 // the error log has more
	DoNotRetry Status = 1 << 14
	codeMask   Status = 1<<11 - 1
)

// Statuses of any command.
const (
	Success             Status = 0x000
	InvalidOpcode       Status = 0x001
	InvalidField        Status = 0x002
	CommandIDConflict   Status = 0x003
	DataTransferError   Status = 0x004
	PowerLoss           Status = 0x005
	Internal            Status = 0x006
	Aborted             Status = 0x007
	QueueDeleted        Status = 0x008
	InvalidNamespace    Status = 0x00b
	SequenceError       Status = 0x00c
	SGLCount            Status = 0x00e
	SGLDataLength       Status = 0x00f
	SGLMetadata         Status = 0x010
	SGLType             Status = 0x011
	SGLOffset           Status = 0x016
	HostIDInconsistent  Status = 0x018
	KeepAliveExpired    Status = 0x019
	KeepAliveInvalid    Status = 0x01a
	WriteProtected      Status = 0x020
	TransientTransport  Status = 0x022
	HostIDFormat        Status = 0x024
	LBARange            Status = 0x080
	CapacityExceeded    Status = 0x081
	NamespaceNotReady   Status = 0x082
	ReservationConflict Status = 0x083
)

// Statuses of certain commands.
const (
	InvalidQueue           Status = 0x101
	QueueSize              Status = 0x102
	AbortLimit             Status = 0x103
	AsyncEventLimit        Status = 0x105
	InvalidLogPage         Status = 0x109
	FeatureNotSaveable     Status = 0x10d
	FeatureNotChangeable   Status = 0x10e
	ConnectFormat          Status = 0x180
	ConnectBusy            Status = 0x181
	ConnectInvalid         Status = 0x182
	ConnectRestart         Status = 0x183
	ConnectHost            Status = 0x184
	DiscoveryRestart       Status = 0x190
	AuthenticationRequired Status = 0x191
)

// Statuses of the medium and of the path.
const (
	WriteFault        Status = 0x280
	ReadError         Status = 0x281
	CompareFailed     Status = 0x285
	AccessDenied      Status = 0x286
	InternalPath      Status = 0x300
	ANAPersistentLoss Status = 0x301
	ANAInaccessible   Status = 0x302
	ANATransition     Status = 0x303
	HostPathError     Status = 0x370
	HostAborted       Status = 0x371
)

// A statusName has the name of a status in Linux, and what it means.
type statusName struct{ name, text string }

var statusNames = map[Status]statusName{
	Success:                {"NVME_SC_SUCCESS", "the command has succeeded"},
	InvalidOpcode:          {"NVME_SC_INVALID_OPCODE", "the controller does not support the opcode, or not in this state"},
	InvalidField:           {"NVME_SC_INVALID_FIELD", "a field of the command has a value that is not defined or not supported"},
	CommandIDConflict:      {"NVME_SC_CMDID_CONFLICT", "the command identifier is in use"},
	DataTransferError:      {"NVME_SC_DATA_XFER_ERROR", "the data or metadata could not be transferred"},
	PowerLoss:              {"NVME_SC_POWER_LOSS", "the command was aborted because of power loss"},
	Internal:               {"NVME_SC_INTERNAL", "the controller had an internal error"},
	Aborted:                {"NVME_SC_ABORT_REQ", "the command was aborted by an abort command"},
	QueueDeleted:           {"NVME_SC_ABORT_QUEUE", "the command was aborted because its queue was deleted"},
	InvalidNamespace:       {"NVME_SC_INVALID_NS", "the namespace or its format is invalid"},
	SequenceError:          {"NVME_SC_CMD_SEQ_ERROR", "the command violates the order of commands"},
	SGLCount:               {"NVME_SC_SGL_INVALID_COUNT", "the number of descriptors is invalid"},
	SGLDataLength:          {"NVME_SC_SGL_INVALID_DATA", "the descriptor's length differs from the command's data"},
	SGLMetadata:            {"NVME_SC_SGL_INVALID_METADATA", "the metadata descriptor's length is invalid"},
	SGLType:                {"NVME_SC_SGL_INVALID_TYPE", "the controller does not support the type of the descriptor"},
	SGLOffset:              {"NVME_SC_SGL_INVALID_OFFSET", "the descriptor's offset lies outside of the capsule's data"},
	HostIDInconsistent:     {"NVME_SC_HOST_ID_INCONSIST", "the host identifier differs from that of the host's other controllers"},
	KeepAliveExpired:       {"NVME_SC_KA_TIMEOUT_EXPIRED", "the keep-alive timer has expired"},
	KeepAliveInvalid:       {"NVME_SC_KA_TIMEOUT_INVALID", "the keep-alive timeout is invalid"},
	WriteProtected:         {"NVME_SC_NS_WRITE_PROTECTED", "the namespace is write protected"},
	TransientTransport:     {"NVME_SC_TRANSIENT_TR_ERR", "the transport had a transient error"},
	HostIDFormat:           {"NVME_SC_HOST_ID_INCONSIST_FORMAT", "the command has host identifiers of another length"},
	LBARange:               {"NVME_SC_LBA_RANGE", "the command's blocks lie beyond the end of the namespace"},
	CapacityExceeded:       {"NVME_SC_CAP_EXCEEDED", "the namespace's capacity is exhausted"},
	NamespaceNotReady:      {"NVME_SC_NS_NOT_READY", "the namespace is not ready"},
	ReservationConflict:    {"NVME_SC_RESERVATION_CONFLICT", "another host has reserved the namespace"},
	InvalidQueue:           {"NVME_SC_QID_INVALID", "the queue identifier is invalid"},
	QueueSize:              {"NVME_SC_QUEUE_SIZE", "the queue size is invalid"},
	AbortLimit:             {"NVME_SC_ABORT_LIMIT", "too many abort commands are outstanding"},
	AsyncEventLimit:        {"NVME_SC_ASYNC_LIMIT", "too many asynchronous event requests are outstanding"},
	InvalidLogPage:         {"NVME_SC_INVALID_LOG_PAGE", "the controller does not support the log page"},
	FeatureNotSaveable:     {"NVME_SC_FEATURE_NOT_SAVEABLE", "the feature cannot be saved"},
	FeatureNotChangeable:   {"NVME_SC_FEATURE_NOT_CHANGEABLE", "the feature cannot be changed"},
	ConnectFormat:          {"NVME_SC_CONNECT_FORMAT", "the controller does not support the format of the connect command"},
	ConnectBusy:            {"NVME_SC_CONNECT_CTRL_BUSY", "the controller is already associated with a host"},
	ConnectInvalid:         {"NVME_SC_CONNECT_INVALID_PARAM", "a parameter of the connect command is invalid"},
	ConnectRestart:         {"NVME_SC_CONNECT_RESTART_DISC", "the subsystem is not here any more: discover again"},
	ConnectHost:            {"NVME_SC_CONNECT_INVALID_HOST", "the host may not use the subsystem"},
	DiscoveryRestart:       {"NVME_SC_DISCOVERY_RESTART", "the discovery log has changed: read it again"},
	AuthenticationRequired: {"NVME_SC_AUTH_REQUIRED", "the host must authenticate first"},
	WriteFault:             {"NVME_SC_WRITE_FAULT", "the data could not be written to the medium"},
	ReadError:              {"NVME_SC_READ_ERROR", "the data could not be read from the medium"},
	CompareFailed:          {"NVME_SC_COMPARE_FAILED", "the data differs from that of the compare command"},
	AccessDenied:           {"NVME_SC_ACCESS_DENIED", "access to the blocks is denied"},
	InternalPath:           {"NVME_SC_INTERNAL_PATH_ERROR", "the controller has lost its path to the namespace"},
	ANAPersistentLoss:      {"NVME_SC_ANA_PERSISTENT_LOSS", "this path to the namespace is lost for good"},
	ANAInaccessible:        {"NVME_SC_ANA_INACCESSIBLE", "the namespace cannot be reached by this path now"},
	ANATransition:          {"NVME_SC_ANA_TRANSITION", "this path to the namespace is changing"},
	HostPathError:          {"NVME_SC_HOST_PATH_ERROR", "the host has lost the path"},
	HostAborted:            {"NVME_SC_HOST_ABORTED_CMD", "the host has aborted the command"},
}

// All returns all statuses that have a name, in the order of their numbers.
func All() (all []Status) {
	for s := range statusNames {
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

// Code returns the status without flags: type and code.
func (s Status) Code() Status { return s & codeMask }

// String returns the status's name in Linux, without flags.
func (s Status) String() string {
	if n, ok := statusNames[s.Code()]; ok {
		return n.name
	}
	return fmt.Sprintf("NVME_SC_%#03x", uint16(s.Code()))
}

// Text returns what the status means.
func (s Status) Text() string {
	if n, ok := statusNames[s.Code()]; ok {
		return n.text
	}
	return "an unknown status"
}

// An Error is a command that has failed. A backend may return one to choose the status.
type Error struct {
	Status Status
	Result uint64 // of the completion
}

// Error returns name, number and meaning.
func (e *Error) Error() string {
	retry := ""
	if e.Status&DoNotRetry != 0 {
		retry = ", do not retry"
	}
	return fmt.Sprintf("%v (%#x): %s%s", e.Status, uint16(e.Status.Code()), e.Status.Text(), retry)
}

// Reason returns the name of the status.
func (e *Error) Reason() string { return e.Status.String() }

// Expected returns 0.
func (e *Error) Expected() uint64 { return 0 }

// Found returns the number of the status.
func (e *Error) Found() uint64 { return uint64(e.Status.Code()) }
