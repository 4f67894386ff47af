package controller

import (
	"fmt"
	"strings"

	"softrdma/storage/nvmeof/wire/status"
)

// A Reason is why a controller refuses a command. It is more precise than the status.
type Reason uint8

// The reasons.
const (
	None Reason = iota
	CapsuleShort
	OpcodeUnknown
	NotConnected
	AlreadyConnected
	ConnectFormat
	SubsystemUnknown
	HostNotAllowed
	ControllerUnknown
	QueueUnknown
	QueueInUse
	QueueSize
	NotReady
	CommandIDInUse
	SGLType
	SGLLength
	SGLBounds
	TransferTooLong
	NamespaceUnknown
	BlocksOutOfRange
	FieldValue
	LogPageUnknown
	FeatureUnknown
	EventLimit
	NamespaceProtected
	PathUnusable
	TransferFailed
	BackendFailed
	DataDiffers
	ControllersExhausted
	FaultInjected
	NotAuthenticated
	AuthenticationFailed
	ReservationConflict
	RegistrantLimit
	reasonCount
)

// A reasonText has a reason's name, status, and what it means with the numbers expected and found.
type reasonText struct {
	name     string
	status   status.Status
	sentence string // "%[1]d" is what was expected, "%[2]d" what was found
}

var reasonTexts = [reasonCount]reasonText{
	None:                 {"NVME_NONE", status.Success, "no refusal"},
	CapsuleShort:         {"NVME_CAPSULE_SHORT", status.InvalidField, "command capsule: expected at least %[1]d bytes, found %[2]d"},
	OpcodeUnknown:        {"NVME_OPCODE", status.InvalidOpcode, "opcode %#[2]x is not supported on this queue"},
	NotConnected:         {"NVME_NOT_CONNECTED", status.SequenceError, "expected a connect command first, found opcode %#[2]x"},
	AlreadyConnected:     {"NVME_ALREADY_CONNECTED", status.SequenceError, "the queue is connected already, as queue %[2]d"},
	ConnectFormat:        {"NVME_CONNECT_FORMAT", status.ConnectFormat, "connect command: expected record format %[1]d, found %[2]d"},
	SubsystemUnknown:     {"NVME_SUBSYSTEM_UNKNOWN", status.ConnectInvalid, "no subsystem has the name of the connect data"},
	HostNotAllowed:       {"NVME_HOST_NOT_ALLOWED", status.ConnectHost, "the subsystem does not allow the host"},
	ControllerUnknown:    {"NVME_CONTROLLER_UNKNOWN", status.ConnectInvalid, "the host has no controller %[2]d in the subsystem"},
	QueueUnknown:         {"NVME_QUEUE_UNKNOWN", status.ConnectInvalid, "queue: expected at most %[1]d, found %[2]d"},
	QueueInUse:           {"NVME_QUEUE_IN_USE", status.SequenceError, "queue %[2]d of the controller is connected already"},
	QueueSize:            {"NVME_QUEUE_SIZE", status.ConnectInvalid, "queue size: expected 2 to %[1]d entries, found %[2]d"},
	NotReady:             {"NVME_NOT_READY", status.SequenceError, "the controller is not enabled: its configuration is %#[2]x"},
	CommandIDInUse:       {"NVME_COMMAND_ID_IN_USE", status.CommandIDConflict, "command identifier %[2]d is in use"},
	SGLType:              {"NVME_SGL_TYPE", status.SGLType, "descriptor type %#[2]x is not supported for this command"},
	SGLLength:            {"NVME_SGL_LENGTH", status.SGLDataLength, "descriptor: expected %[1]d bytes, found %[2]d"},
	SGLBounds:            {"NVME_SGL_BOUNDS", status.SGLOffset, "data in the capsule: expected it to end at byte %[1]d, found %[2]d"},
	TransferTooLong:      {"NVME_TRANSFER_TOO_LONG", status.InvalidField, "transfer: expected at most %[1]d bytes, found %[2]d"},
	NamespaceUnknown:     {"NVME_NAMESPACE_UNKNOWN", status.InvalidNamespace, "the subsystem has no namespace %[2]d"},
	BlocksOutOfRange:     {"NVME_BLOCKS_OUT_OF_RANGE", status.LBARange, "the namespace has %[1]d blocks, the command's last block is %[2]d"},
	FieldValue:           {"NVME_FIELD_VALUE", status.InvalidField, "a field of the command: expected %#[1]x, found %#[2]x"},
	LogPageUnknown:       {"NVME_LOG_PAGE_UNKNOWN", status.InvalidLogPage, "log page %#[2]x is not supported"},
	FeatureUnknown:       {"NVME_FEATURE_UNKNOWN", status.InvalidField, "feature %#[2]x is not supported"},
	EventLimit:           {"NVME_EVENT_LIMIT", status.AsyncEventLimit, "asynchronous event requests: expected at most %[1]d"},
	NamespaceProtected:   {"NVME_NAMESPACE_PROTECTED", status.WriteProtected, "namespace %[2]d is write protected"},
	PathUnusable:         {"NVME_PATH_UNUSABLE", status.ANAInaccessible, "the namespace's group is in state %[2]d at this controller"},
	TransferFailed:       {"NVME_TRANSFER_FAILED", status.DataTransferError, "the data could not be moved"},
	BackendFailed:        {"NVME_BACKEND_FAILED", status.Internal, "the namespace's storage failed"},
	DataDiffers:          {"NVME_DATA_DIFFERS", status.CompareFailed, "compare: the data differs at byte %[2]d"},
	ControllersExhausted: {"NVME_CONTROLLERS_EXHAUSTED", status.ConnectBusy, "the target has no identifier left: it has %[2]d controllers"},
	FaultInjected:        {"NVME_FAULT_INJECTED", status.Internal, "a rule of faults makes the command fail"},
	NotAuthenticated:     {"NVME_NOT_AUTHENTICATED", status.AuthenticationRequired, "the host must authenticate first, found opcode %#[2]x"},
	ReservationConflict:  {"NVME_RESERVATION_CONFLICT", status.ReservationConflict, "another host has reserved the namespace, or the key is not the host's: found %#[2]x"},
	RegistrantLimit:      {"NVME_REGISTRANT_LIMIT", status.Internal, "registrants of a namespace: expected at most %[1]d, found %[2]d"},
	AuthenticationFailed: {"NVME_AUTHENTICATION_FAILED", status.AuthenticationRequired, "the host has not proved that it knows its secret"},
}

// Reasons returns all reasons for refusals.
func Reasons() (all []Reason) {
	for r := None + 1; r < reasonCount; r++ {
		all = append(all, r)
	}
	return all
}

// String returns the name.
func (r Reason) String() string {
	if r >= reasonCount {
		return fmt.Sprintf("Reason(%d)", uint8(r))
	}
	return reasonTexts[r].name
}

// Status returns the status of commands that are refused for the reason.
func (r Reason) Status() status.Status { return reasonTexts[r].status }

// Sentence returns what the reason means. "…" stands for the numbers expected and found.
func (r Reason) Sentence() string { return numbers.Replace(reasonTexts[r].sentence) }

// numbers replaces the places of numbers in a sentence.
var numbers = strings.NewReplacer("%[1]d", "…", "%[2]d", "…", "%#[1]x", "…", "%#[2]x", "…")

// A Refusal is a command that was refused, or that failed.
type Refusal struct {
	Why        Reason
	Status     status.Status
	Want, Have uint64
	Detail     string // what was refused, such as a qualified name
	Err        error  // of the backend or the transport
}

// Error says what was expected and what was found.
func (r *Refusal) Error() string {
	s := r.Why.String() + ": " + r.sentence()
	if r.Detail != "" {
		s += ": " + r.Detail
	}
	if r.Err != nil {
		s += ": " + r.Err.Error()
	}
	return s
}

// sentence puts the numbers into the reason's sentence. Not every sentence has both.
func (r *Refusal) sentence() string {
	format := reasonTexts[r.Why].sentence
	if !strings.Contains(format, "%") {
		return format
	}
	return fmt.Sprintf(format, r.Want, r.Have)
}

// Reason returns the name of the reason.
func (r *Refusal) Reason() string { return r.Why.String() }

// Expected and Found return what was expected and what was found.
func (r *Refusal) Expected() uint64 { return r.Want }

// Found returns what was found.
func (r *Refusal) Found() uint64 { return r.Have }

// Unwrap returns the error of the backend or the transport.
func (r *Refusal) Unwrap() error { return r.Err }

// refuse returns a refusal whose command a host should not repeat.
func refuse(why Reason, want, have uint64) *Refusal {
	return &Refusal{Why: why, Status: why.Status() | status.DoNotRetry, Want: want, Have: have}
}
