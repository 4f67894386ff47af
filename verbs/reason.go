package verbs

// A ReasonError is an error with a named reason: why a call was refused, or why
// a work request, a connection or a stream failed. errors.As finds it in the
// errors of packages verbs, rdmacm and rdmanet:
//
//	var why verbs.ReasonError
//	if errors.As(err, &why) {
//		log.Print(why.Reason(), why.Expected(), why.Found())
//	}
//
// `softrdma explain` tells cause and remedy of each reason. Its text says what
// the two numbers are.
type ReasonError interface {
	error

	// Reason returns the name, as in traces and counters: "KEY_ACCESS".
	Reason() string

	// Expected and Found return what was expected and what was found, 0 where
	// the reason has no such number.
	Expected() uint64
	Found() uint64
}
