#!/usr/bin/env bash
# The tools that tests use: helm, kubeconform, docker compose, promtool, prometheus, FerretDB, gh-ost, and
# the Kubernetes JSON schemas. No package registry of Python's carries them, so they are built from the Go modules,
# at the versions below, into the cache directory; what is there already is left alone. Tests find them there or on
# PATH, and skip with a reason where there is neither. Packages of
# Node come from npm, where there is one.
#
#   scripts/tools.sh            build what is missing
#   scripts/tools.sh NAME...    only these (helm kubeconform docker-compose promtool prometheus dockerfile ferretdb gh-ost schemas npm)
#   scripts/tools.sh etcd kube-apiserver    for `python -m tests.kubernetes`: ten minutes, or more
#   scripts/tools.sh mysql      fetch MySQL's server: packages of Debian, pinned, unpacked into the cache beside this directory;
#                               exit code 3 where they cannot be had, and then its tests are skipped
#   scripts/tools.sh --where    print the directory
#
# A module whose go.mod has `replace` or `exclude` directives cannot be installed by `go install module@version`, so
# every tool is built inside a throw-away module that takes over the directives and the module's own go.sum.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
cache="${TIDINGS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tidings}/tools"
python="${PYTHON:-$here/../.venv/bin/python}"
[[ -x "$python" ]] || python=python3

declare -A module=(
    [helm]="helm.sh/helm/v3@v3.22.0"
    [kubeconform]="github.com/yannh/kubeconform@v0.8.0"
    [docker-compose]="github.com/docker/compose/v2@v2.40.3"
    [promtool]="github.com/prometheus/prometheus@v0.315.0"
    [prometheus]="github.com/prometheus/prometheus@v0.315.0"
    # Docker compose 2.40.3 has the same version. The program is ours: scripts/dockerfile/main.go.
    [dockerfile]="github.com/moby/buildkit@v0.25.1"
    # The program is ours: scripts/ferretdb/main.go.
    [ferretdb]="github.com/FerretDB/FerretDB@v1.24.2"
    # 1.1.8 takes MariaDB 11.4 for a MySQL 8.4, and asks it for what it does not know.
    [gh-ost]="github.com/github/gh-ost@v1.1.6"
    # For `python -m tests.kubernetes`; only when named, since the second takes ten minutes.
    [etcd]="go.etcd.io/etcd/server/v3@v3.6.8"
    [kube-apiserver]="k8s.io/kubernetes@v1.36.3"
)
declare -A package=(
    [helm]="helm.sh/helm/v3/cmd/helm"
    [kubeconform]="github.com/yannh/kubeconform/cmd/kubeconform"
    [docker-compose]="github.com/docker/compose/v2/cmd"
    [promtool]="github.com/prometheus/prometheus/cmd/promtool"
    [prometheus]="github.com/prometheus/prometheus/cmd/prometheus"
    [dockerfile]="."
    [ferretdb]="."
    [gh-ost]="github.com/github/gh-ost/go/cmd/gh-ost"
    [etcd]="go.etcd.io/etcd/server/v3"
    [kube-apiserver]="k8s.io/kubernetes/cmd/kube-apiserver"
)
# Prometheus without its cloud service discoveries builds in a fraction of the time; ours are static and file targets.
declare -A tags=([promtool]="netgo,remove_all_sd" [prometheus]="netgo,remove_all_sd")
declare -A version_flag=(
    # Without the last two, helm renders for Kubernetes 1.20.
    [helm]="-X helm.sh/helm/v3/internal/version.version=v3.22.0
        -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=36"
    [docker-compose]="-X github.com/docker/compose/v2/internal.Version=v2.40.3"
    [kube-apiserver]="-X k8s.io/component-base/version.gitVersion=v1.36.3
        -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
    [promtool]="-X github.com/prometheus/common/version.Version=3.15.0"
    [prometheus]="-X github.com/prometheus/common/version.Version=3.15.0"
)
kubernetes="k8s.io/kubernetes@v1.36.3"
operator="github.com/prometheus-operator/prometheus-operator@v0.85.0"

# GOFLAGS of the caller stay, so that GOFLAGS=-p=1 keeps a shared machine usable.
export GOFLAGS="${GOFLAGS:-} -mod=mod -buildvcs=false" CGO_ENABLED=0 GOWORK=off

field() { # field NAME of the JSON that `go mod download -json` prints
    "$python" -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

# A proxy of modules that does not answer once must not end a whole run; what has come is kept, so it goes on from there.
again() { # again COMMAND...: up to three times; prints what the last one printed
    local attempt printed
    for attempt in 1 2 3; do
        if printed="$("$@")"; then
            [[ -z "$printed" ]] || printf '%s\n' "$printed"
            return 0
        fi
        echo "  attempt $attempt of 3 failed: $1 $2 ${3:-}" >&2
        sleep $((attempt * 3))
    done
    return 1
}

build() { # build NAME
    local name=$1 work started description
    work="$(mktemp -d)"
    started=$SECONDS
    echo "building $name (${module[$name]}) ..."
    (
        cd "$work"
        description="$(cd / && again go mod download -json "${module[$name]}")"
        {
            echo "module local/tool"
            grep -E '^go ' "$(field GoMod <<<"$description")"
            echo "require ${module[$name]/@/ }"
            go mod edit -json "$(field GoMod <<<"$description")" | "$python" -c '
import json, sys
module = json.load(sys.stdin)
for item in module.get("Replace") or []:
    old, new = item["Old"], item["New"]
    if new["Path"].startswith("./staging/src/"):
        # Parts of Kubernetes, which are modules of their own: v0.36.3 of v1.36.3.
        part = new["Path"].removeprefix("./staging/src/")
        print("replace", old["Path"], "=>", part, "v0." + sys.argv[1].partition("@v1.")[2])
    elif not new["Path"].startswith("."):
        print("replace", old["Path"], old.get("Version", ""), "=>", new["Path"], new.get("Version", ""))
for item in module.get("Exclude") or []:
    print("exclude", item["Path"], item["Version"])' "${module[$name]}"
        } >go.mod
        cp "$(field Dir <<<"$description")/go.sum" go.sum
        chmod u+w go.sum
        if [[ "${package[$name]}" == . ]]; then
            cp "$here/$name/main.go" .
        else
            printf '//go:build tools\n\npackage tools\n\nimport _ "%s"\n' "${package[$name]}" >tools.go
        fi
        again nice go build -trimpath -tags "${tags[$name]:-}" -ldflags "-s -w ${version_flag[$name]:-}" \
            -o "$work/$name" "${package[$name]}" 2> >(grep -v '^go: \(downloading\|found\|finding\)' >&2 || true)
    )
    mkdir -p "$cache/bin"
    [[ "${package[$name]}" != . ]] || cp "$here/$name/main.go" "$cache/bin/$name.go"
    mv "$work/$name" "$cache/bin/$name.new" && mv "$cache/bin/$name.new" "$cache/bin/$name"
    rm -rf "$work"
    echo "  $name: $((SECONDS - started)) s, $(du -h "$cache/bin/$name" | cut -f1)"
}

up_to_date() { # up_to_date NAME: what is built is of the source that is here
    [[ "${package[$1]:-}" != . ]] || cmp --silent "$here/$1/main.go" "$cache/bin/$1.go"
}

schemas() {
    local kubernetes_dir operator_dir
    echo "fetching the Kubernetes API description and the operator's custom resources ..."
    kubernetes_dir="$(cd / && again go mod download -json "$kubernetes" | field Dir)"
    operator_dir="$(cd / && again go mod download -json "$operator" | field Dir)"
    "$python" "$here/kubernetes_schemas.py" \
        --api "$kubernetes_dir/api/openapi-spec/swagger.json" \
        --crds "$operator_dir/example/prometheus-operator-crd" \
        --into "$cache/schemas"
}

npm_wanted="@asyncapi/parser@3.6.3 @asyncapi/avro-schema-parser@3.0.24 cloudevents@10.0.0 kafkajs@2.2.4 avsc@5.7.9"

npm_packages() {
    local into="$cache/npm"
    rm -rf "$into.new"
    mkdir -p "$into.new"
    echo "fetching packages of Node: the parser of AsyncAPI, the SDK of CloudEvents, clients of Kafka and Avro ..."
    # shellcheck disable=SC2086 # a list of words
    if npm install --prefix "$into.new" --silent --no-audit --no-fund --no-package-lock --ignore-scripts $npm_wanted
    then
        echo "$npm_wanted" >"$into.new/complete"
        rm -rf "$into"
        mv "$into.new" "$into"
    else
        echo "npm: fetching failed, so tests with programs of Node are skipped" >&2
    fi
}

if [[ "${1:-}" == "--where" ]]; then
    echo "$cache"
    exit 0
fi
if [[ "$*" == mysql ]]; then
    exec "$python" -m tidings_stack.provision
fi
wanted=("$@")
((${#wanted[@]})) || wanted=(helm kubeconform promtool schemas prometheus docker-compose dockerfile ferretdb gh-ost npm)
for name in "${wanted[@]}"; do
    if [[ "$name" == npm ]]; then
        if [[ "$(cat "$cache/npm/complete" 2>/dev/null)" == "$npm_wanted" ]]; then
            echo "npm: $cache/npm"
        elif command -v npm >/dev/null; then
            npm_packages
        else
            echo "npm: not here, so tests with programs of Node are skipped"
        fi
        continue
    elif [[ "$name" == schemas ]]; then
        [[ -e "$cache/schemas/complete" ]] && { echo "schemas: $cache/schemas"; continue; }
    elif [[ -x "$cache/bin/$name" ]] && up_to_date "$name"; then
        echo "$name: $cache/bin/$name"
        continue
    elif [[ -z "${module[$name]:-}" ]]; then
        echo "no such tool: $name (there are: ${!module[*]} schemas)" >&2
        exit 2
    elif [[ "${package[$name]}" != . ]] && command -v "$name" >/dev/null; then
        echo "$name: $(command -v "$name")"
        continue
    fi
    command -v go >/dev/null || {
        echo "$name is neither on PATH nor in $cache, and there is no Go to build it with: install either" >&2
        exit 1
    }
    if [[ "$name" == schemas ]]; then schemas; else build "$name"; fi
done
