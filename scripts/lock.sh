#!/usr/bin/env bash
# Pins every Python dependency with hashes, for all platforms, from the distributions' own pyproject.toml.
# Run it after changing a dependency; the files it writes hold no index address.
set -euo pipefail
cd "$(dirname "$0")/.."
uv="${UV:-.venv/bin/uv}"
local_packages=(tidings-envelope tidings-domain tidings-service tidings-connect tidings-jvm tidings-stack tidings-translator)
common=(--universal --python-version 3.11 --generate-hashes --no-header --no-annotate --quiet)
for package in "${local_packages[@]}"; do common+=(--no-emit-package "$package"); done
"$uv" pip compile "${common[@]}" "$@" requirements/dev.in libs/*/pyproject.toml services/*/pyproject.toml \
    examples/shop/pyproject.toml -o requirements/all.txt
"$uv" pip compile "${common[@]}" -c requirements/all.txt requirements/bootstrap.in -o requirements/bootstrap.txt
for service in capture translator lakehouse; do
    projects=("services/$service/pyproject.toml")
    # Its image has the sinks, too, and `tidings doctor`.
    [[ "$service" != capture ]] || projects+=(services/sinks/pyproject.toml services/cli/pyproject.toml)
    "$uv" pip compile "${common[@]}" -c requirements/all.txt "${projects[@]}" -o "requirements/$service.txt"
done
# For the images: the build backend, and the shop with the translator.
"$uv" pip compile "${common[@]}" -c requirements/all.txt requirements/build.in -o requirements/build.txt
"$uv" pip compile "${common[@]}" -c requirements/all.txt examples/shop/pyproject.toml -o requirements/shop.txt
