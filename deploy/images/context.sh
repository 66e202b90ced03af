#!/bin/sh
# Puts together the context of the images: context.sh DIR ARCH...
# The same commit and the same Go give the same binaries, byte for byte, wherever
# the checkout is.
set -eu
out=$1
shift
cd "$(dirname "$0")/../.."
: "${GO:=go}" "${CA_BUNDLE:=/etc/ssl/certs/ca-certificates.crt}"

rm -rf "$out"
mkdir -p "$out/rootfs/etc/ssl/certs" "$out/rootfs/tmp" "$out/rootfs/workspace"
echo 'coppice:x:65532:65532:Coppice:/tmp:/sbin/nologin' > "$out/rootfs/etc/passwd"
echo 'coppice:x:65532:' > "$out/rootfs/etc/group"
cp "$CA_BUNDLE" "$out/rootfs/etc/ssl/certs/ca-certificates.crt"
chmod 1777 "$out/rootfs/tmp" "$out/rootfs/workspace"

for arch; do
  CGO_ENABLED=0 GOOS=linux GOARCH=$arch $GO build -trimpath -tags grpcnotrace -buildvcs=false -ldflags='-s -w -buildid=' \
    -o "$out/$arch/" ./cmd/orchestrator ./cmd/worker ./cmd/coppice
done
