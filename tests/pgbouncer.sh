#!/usr/bin/env bash
# Runs a command with a pooler in transaction mode in front of a database.
#
#   MEMPHANT_TEST_DATABASE_URL=… tests/pgbouncer.sh .venv/bin/pytest tests/server
#   tests/versions.sh tests/pgbouncer.sh .venv/bin/pytest tests/server
#
# Many who run Postgres put PgBouncer before it, and in transaction mode each transaction of a
# client may meet another connection: identity, settings and prepared statements that outlive
# a transaction are lost there, or worse, found by somebody else. The pool is small (five for each
# role and database), so that connections are shared, and PgBouncer's own handling of prepared
# statements, which older releases do not have, is off.
#
# The command gets MEMPHANT_TEST_POOLER_URL: the role and the database of
# MEMPHANT_TEST_DATABASE_URL, through the pooler. Any other role and database of that server
# can be reached in the same way; each logs in with the password in that URL, if it has one.
#
# Needs PgBouncer; root installs it where it is missing (Debian).
set -euo pipefail

if (($# == 0)) || [[ -z ${MEMPHANT_TEST_DATABASE_URL:-} ]]; then
    echo "usage: MEMPHANT_TEST_DATABASE_URL=postgresql://… $0 COMMAND [ARGUMENT]..." >&2
    exit 2
fi

PATH=$PATH:/usr/sbin # where Debian puts it
if ! command -v pgbouncer >/dev/null; then
    if ((EUID != 0)); then
        echo "$0: pgbouncer is not installed" >&2
        exit 2
    fi
    apt-get update --quiet --quiet
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --quiet \
        --no-install-recommends pgbouncer >/dev/null
fi

# PgBouncer refuses to run as root.
account=$(id -un)
if [[ $account == root ]]; then
    account=nobody
    if id postgres &>/dev/null; then account=postgres; fi
fi

folder=$(mktemp --directory "${TMPDIR:-/tmp}/memphant-pooler.XXXXXX")

stop() {
    local pooler
    if [[ -s $folder/pid ]]; then
        pooler=$(<"$folder/pid")
        kill -QUIT "$pooler" 2>/dev/null || true # at once, in old releases and new ones
        tail --pid="$pooler" --follow /dev/null
    fi
    rm -rf "$folder"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Writes the configuration, and prints the URL for the command.
python3 - "$folder" "$(pgbouncer --version | sed -n 's/^PgBouncer 1\.\([0-9]*\).*/\1/p')" <<'PYTHON' >"$folder/url"
import os
import sys
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

folder, minor = Path(sys.argv[1]), int(sys.argv[2])
url = urlsplit(os.environ["MEMPHANT_TEST_DATABASE_URL"])
options = {name: values[-1] for name, values in parse_qs(url.query).items()}
host = options.get("host") or unquote(url.hostname or "localhost")
port = options.get("port") or url.port or 5432
role = unquote(url.username or options.get("user") or "")
password = unquote(url.password or options.get("password") or "")
database = unquote(url.path.lstrip("/")) or role


def quoted(text: str, mark: str) -> str:
    return mark + text.replace(mark, mark * 2) + mark


# auth_query lets in every role with the one password
query = f"select $1::text, {quoted(password, chr(39))}::text"
(folder / "pgbouncer.ini").write_text(f"""
[databases]
* = host={quoted(host, "'")} port={port} auth_user={quoted(role, "'")}

[pgbouncer]
pool_mode = transaction
default_pool_size = 5
{"max_prepared_statements = 0" if minor >= 21 else ""}
max_client_conn = 500
query_wait_timeout = 30
auth_type = trust
auth_file = {folder}/users
auth_query = {query}
listen_addr =
listen_port = 6432
unix_socket_dir = {folder}
logfile = {folder}/log
pidfile = {folder}/pid
log_connections = 0
log_disconnections = 0
""")
(folder / "users").write_text(f"{quoted(role, chr(34))} {quoted(password, chr(34))}\n")
print(f"postgresql://{quote(role, safe='')}@/{quote(database, safe='')}?host={folder}&port=6432")
PYTHON
url=$(<"$folder/url")
chown -R "$account" "$folder"

start=(pgbouncer --quiet --daemon "$folder/pgbouncer.ini")
if [[ $(id -un) != "$account" ]]; then start=(runuser --user "$account" -- "${start[@]}"); fi
(cd "$folder" && "${start[@]}")
for _ in {1..100}; do
    if [[ -s $folder/pid && -S $folder/.s.PGSQL.6432 ]]; then break; fi
    sleep 0.1
done
if [[ ! -S $folder/.s.PGSQL.6432 ]]; then
    cat "$folder/log" >&2
    exit 1
fi

MEMPHANT_TEST_POOLER_URL=$url "$@"
