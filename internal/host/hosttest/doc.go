// Package hosttest runs tests in network namespaces or without permissions, on threads
// that end with the test. Only tests import it.
package hosttest
