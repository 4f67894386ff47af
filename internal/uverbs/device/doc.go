// Package device describes a device to programs: its name and driver, its number
// and GUID, its limits and its port, as the commands that ask for them, sysfs and
// netlink report them.
//
// It owns the record of which process created which queue pair, and the conversion
// of a program's addresses into paths. It executes no command.
package device
