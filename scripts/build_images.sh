#!/usr/bin/env bash
# Builds the images and starts each once.
#
#   scripts/build_images.sh [NAME...]              with Docker (capture translator lakehouse shop), and their bills of materials
#   scripts/build_images.sh --pin                  writes the base image's newest digest into the Dockerfiles
#   scripts/build_images.sh --stand-in [NAME...]   without a registry of images and without a daemon, to try the steps
#
# Docker: the base image is the one that the Dockerfiles pin by its digest, and the script says when its tag names a newer one,
# which has security updates: pin it, commit, build again. Set PYTHON_IMAGE to choose another.
# Stand-in (Debian, as root; apt-get install buildah mmdebstrap): the base is made of Debian's packages with the same
# distribution and Python, and buildah runs every step in a chroot. What that cannot show: the official image's own
# files, and how the container runs under a daemon (seccomp, cgroups). Takes about ten minutes; no test runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
version="$(sed -n 's/^appVersion: "\(.*\)"/\1/p' helm/tidings/Chart.yaml)"
stand_in=
pin=
case "${1:-}" in
    --stand-in) stand_in=1 && shift ;;
    --pin) pin=1 && shift ;;
esac
names=("$@")
((${#names[@]})) || names=(capture translator lakehouse shop)
dockerfiles=(services/*/Dockerfile examples/*/Dockerfile)
pinned="$(sed -n 's/^ARG PYTHON_IMAGE=//p' "${dockerfiles[@]}" | sort -u)"
tag="${pinned%@*}"

newest_base() { # what the tag names now, by digest
    local digest
    digest="$(docker buildx imagetools inspect "$tag" --format '{{.Manifest.Digest}}')"
    [[ "$digest" =~ ^sha256:[0-9a-f]{64}$ ]] || { echo "$tag: the registry tells no digest" >&2; return 1; }
    echo "$tag@$digest"
}

arguments() { # arguments NAME: what `docker build` and `buildah build` both take
    case "$1" in
        shop) echo "-f examples/shop/Dockerfile" ;;
        translator) echo "-f services/translator/Dockerfile --build-arg REQUIREMENTS=shop --build-arg DOMAIN=examples/shop" ;;
        *) echo "-f services/$1/Dockerfile" ;;
    esac
}

command_of() { # command_of NAME: starts the image's program and ends at once
    case "$1" in
        shop) echo "tidings-shop --help" ;;
        *) echo "tidings-$1 --help" ;;
    esac
}

make_stand_in() {
    local root=$1 packages
    packages=python3,python3-pip,python3-venv,ca-certificates,passwd,apt
    # As the slim images: no manual pages.
    mmdebstrap --quiet --variant=minbase --include="$packages" --dpkgopt='path-exclude=/usr/share/man/*' \
        bookworm "$root"
    ln -sf python3 "$root/usr/bin/python"
    # The official image's Python is not the system's.
    rm -f "$root"/usr/lib/python3*/EXTERNALLY-MANAGED
    # How this machine reaches the package registries: its own certificate authorities, for Python and Java.
    cp -r /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/"
    chroot "$root" update-ca-certificates >/dev/null
    rm -rf "$root"/etc/apt/sources.list*
    cp -r /etc/apt/sources.list* "$root/etc/apt/"
    [[ ! -e /etc/pip.conf ]] || cp /etc/pip.conf "$root/etc/pip.conf"
}

if [[ -n "$pin" ]]; then
    base="$(newest_base)"
    sed -i "s|^ARG PYTHON_IMAGE=.*|ARG PYTHON_IMAGE=$base|" "${dockerfiles[@]}"
    echo "base image: $base"
    exit 0
fi

if [[ -z "$stand_in" ]]; then
    base="${PYTHON_IMAGE:-$pinned}"
    echo "base image: $base"
    if [[ "$base" == "$pinned" ]]; then
        newest="$(newest_base)"
        [[ "$newest" == "$base" ]] || echo "$tag is now $newest: scripts/build_images.sh --pin takes its updates"
    fi
    for name in "${names[@]}"; do
        # shellcheck disable=SC2046 # a list of words
        docker build $(arguments "$name") --build-arg "PYTHON_IMAGE=$base" \
            --label "org.opencontainers.image.base.name=$base" -t "tidings/$name:$version" .
        # shellcheck disable=SC2046
        docker run --rm --read-only --tmpfs /tmp --entrypoint "" "tidings/$name:$version" $(command_of "$name") >/dev/null
        echo "tidings/$name:$version: built and started"
    done
    make --no-print-directory sbom
    exit 0
fi

base=localhost/tidings-stand-in
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
if ! buildah inspect --type image "$base" >/dev/null 2>&1; then
    make_stand_in "$work/root"
    container="$(buildah from scratch)"
    buildah add --quiet "$container" "$work/root" / >/dev/null
    buildah config --env PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin --cmd python3 "$container"
    buildah commit --quiet --rm "$container" "$base" >/dev/null
fi
for name in "${names[@]}"; do
    started=$SECONDS
    # shellcheck disable=SC2046
    buildah build --isolation chroot --pull-never --layers $(arguments "$name") --build-arg "PYTHON_IMAGE=$base" \
        -t "localhost/tidings/$name:$version" . >"$work/log" 2>&1 || { tail -n 40 "$work/log"; echo "$name: failed"; exit 1; }
    container="$(buildah from --pull-never "localhost/tidings/$name:$version")"
    user="$(buildah run --isolation chroot "$container" -- id -u)"
    [[ "$user" == 10001 ]] || { echo "$name: runs as $user"; exit 1; }
    # shellcheck disable=SC2046
    buildah run --isolation chroot "$container" -- $(command_of "$name") >/dev/null
    buildah rm "$container" >/dev/null
    echo "$name: built and started as user $user, $((SECONDS - started)) s"
done
