#!/bin/sh
# Builds images with buildah, podman or docker from a context that is there:
# build.sh CONTEXT TAG ARCH TARGET...
# They are called PREFIXcoppice-TARGET:TAG, with localhost/ for a prefix unless it is set; of
# another architecture, PREFIXcoppice-TARGET:TAG-ARCH.
set -eu
context=$1 tag=$2 arch=$3
shift 3
file=$(dirname "$0")/Containerfile
: "${BUILDER:=$(command -v buildah || command -v podman || command -v docker)}" "${PREFIX:=localhost/}"

case $arch in
"$(${GO:-go} env GOHOSTARCH)") suffix= ;;
*) suffix=-$arch ;;
esac
for target; do
  # shellcheck disable=SC2086 # BUILDFLAGS are several
  "$BUILDER" build ${BUILDFLAGS:-} --platform "linux/$arch" --build-arg "TARGETARCH=$arch" --target "$target" \
    --file "$file" --tag "${PREFIX}coppice-$target:$tag$suffix" "$context"
done
