// Package ci tests the action and the template by which CI jobs get a device, and the scripts of
// docs/ci.md.
package ci
