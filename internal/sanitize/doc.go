// Package sanitize finds mistakes of programs that use verbs: memory that is used after it was
// deregistered, buffers that change while an operation owns them, queues that must overflow, objects
// that leak.
//
// It is a machine: it gets facts about objects, requests and completions, and makes findings of them.
// It does no I/O, and all methods of a nil Sanitizer do nothing, which is how it is off.
package sanitize
