#!/bin/sh
# image.sh OUT: builds the container image of packaging/Containerfile for both
# architectures from the programs in bin/dist, and writes the OCI archive OUT. It needs
# no registry, no container engine and no base image.
set -eu
cd "$(dirname "$0")/.."
out=$1
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT # layers have directories that their owner may not write to
# vfs and chroot need no overlays and no container runtime, nor user namespaces as root.
do_buildah() { buildah --root "$work/root" --runroot "$work/run" --storage-driver vfs "$@"; }

version=$(cat bin/dist/programs/VERSION) commit=$(git rev-parse HEAD) date=$(git log -1 --format=%ct)
for arch in amd64 arm64; do
	# --timestamp: the same sources give the same image.
	do_buildah build --quiet --isolation chroot --timestamp "$date" --platform "linux/$arch" --manifest softrdma \
		--build-arg "TARGETARCH=$arch" --build-arg "VERSION=$version" --build-arg "COMMIT=$commit" \
		-f packaging/Containerfile bin/dist/programs >/dev/null
done
rm -f "$out"
do_buildah manifest push --quiet --all softrdma "oci-archive:$out:docker.io/library/softrdma:latest"
