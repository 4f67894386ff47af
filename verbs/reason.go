package verbs

// A ReasonError is an error with a named reason: why a call was refused, or why a work
// request, a connection or a stream failed. errors.As finds it in the errors of packages
// verbs, rdmacm and rdmanet:
//
//	var why verbs.ReasonError
//	if errors.As(err, &why) {
//		log.Print(why.Reason(), why.Expected(), why.Found())
//	}
//
// `softrdma explain` describes cause and remedy of each reason, and the meaning of the two
// numbers.
type ReasonError interface {
	error

	// Reason returns the name, as in traces and counters: "KEY_ACCESS".
	Reason() string

	// Expected and Found return what was expected and what was found, or 0 if the reason has
	// no such number.
	Expected() uint64
	Found() uint64
}
