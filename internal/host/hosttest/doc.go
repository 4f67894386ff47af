// Package hosttest gives tests a network of their own and a system that
// forbids things, on threads that end with the test. It is no part of the
// product; only tests import it.
package hosttest
