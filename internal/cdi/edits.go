// Package cdi describes softrdma's devices to container runtimes, as the Container Device
// Interface (CDI) has it: the environment and the mounts by which the programs of a container find
// a device.
//
// It owns the names of the devices, the store of the files that containers mount, and the CDI
// specifications that name them. It starts no container and opens no device: the first RDMA call
// of a program in the container does that.
package cdi

import (
	specs "tags.cncf.io/container-device-interface/specs-go"

	"softrdma/internal/ondemand"
)

// DefaultKind is the kind of the devices if no other is asked for: VENDOR/CLASS.
const DefaultKind = "softrdma/rdma"

// The devices of a kind.
const (
	// Auto is a device on the address of the container, in the network namespace of the container.
	Auto = "auto"
	// Shared is the same, with a folder of the host in which containers find each other and then
	// exchange packets through memory.
	Shared = "shared"
)

// Devices are the names of all devices of a kind.
var Devices = []string{Auto, Shared}

// Paths inside of a container.
const (
	filesPath  = "/opt/softrdma"
	folderPath = "/opt/softrdma-shared"
)

// Names of the files in a directory of the store.
const (
	commandName = "softrdma"
	libraryName = "preload.so"
	engineName  = "engine.so"

	// EnvironmentFile is the end of the names of files with the environment of a device, for engines
	// that know no CDI.
	EnvironmentFile = ".env"
)

// Edits returns what a runtime adds to a container for a device: environment and mounts, and nothing
// else. Files is a directory that Store.Files returned. Folder is the directory of the host that
// containers with the device Shared have in common; it is not used for Auto.
func Edits(device, files, folder string) specs.ContainerEdits {
	env := ondemand.Environment{
		Library: filesPath + "/" + libraryName,
		Engine:  filesPath + "/" + engineName,
		Start:   []string{filesPath + "/" + commandName, "daemon", "--on-demand"},
	}
	edits := specs.ContainerEdits{
		Env: env.Over(func(string) string { return "" }), // what the image sets is lost: runtimes replace values
		Mounts: []*specs.Mount{{
			HostPath: files, ContainerPath: filesPath, Options: []string{"ro", "nosuid", "nodev", "bind"},
		}},
	}
	if device == Shared {
		edits.Env = append(edits.Env, "SOFTRDMA_HOST_DIR="+folderPath)
		edits.Mounts = append(edits.Mounts, &specs.Mount{
			HostPath: folder, ContainerPath: folderPath, Options: []string{"rw", "nosuid", "nodev", "noexec", "bind"},
		})
	}
	return edits
}
