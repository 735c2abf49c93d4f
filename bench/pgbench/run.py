"""Throughput and latency of the SQL alone, by pgbench.

    python -m bench.pgbench.run --json bench/results/pgbench.json

A throwaway cluster is seeded; search.sql, list.sql and save.sql run with the bundled pgbench as
the server's ordinary role, with 1, 2, 8 and 32 clients. fsync is on. No model and no MCP.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from bench.seed import seeded
from bench.throwaway import Throwaway

from memphant import embedded

HERE = Path(__file__).parent
SCRIPTS = ("search", "list", "save")  # saves last: they add to what the others read
CLIENTS = (1, 2, 8, 32)
SETTINGS = {"fsync": "on", "full_page_writes": "on"}
SHOWN = ("server_version", "shared_buffers", "fsync", "synchronous_commit", "max_connections")


def measure(throwaway: Throwaway, script: str, clients: int, seconds: int, tenants: int) -> Any:
    """One run of pgbench, with the latencies of its log."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            str(embedded.binaries() / "pgbench"),
            *("--no-vacuum", "--protocol=extended", f"--client={clients}"),
            *(f"--jobs={min(clients, os.cpu_count() or 1)}", f"--time={seconds}"),
            *("--log", f"--log-prefix={folder}/log", f"--define=tenants={tenants}"),
            *(f"--file={HERE / script}.sql", throwaway.server),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        latencies = np.concatenate(
            [np.loadtxt(file, usecols=2, ndmin=1) for file in Path(folder).glob("log*")]
        )
    median, p95, p99 = np.percentile(latencies / 1000, (50, 95, 99))
    return {
        "script": script,
        "clients": clients,
        "transactions": len(latencies),
        "per_second": round(len(latencies) / seconds, 1),
        "p50_ms": round(float(median), 2),
        "p95_ms": round(float(p95), 2),
        "p99_ms": round(float(p99), 2),
        # of the whole machine: beyond the clients of this run, somebody else was at work
        "load": round(os.getloadavg()[0], 1),
    }


def about(throwaway: Throwaway) -> dict[str, str]:
    """The server parameters that matter for the figures."""
    with throwaway.connect() as connection:
        rows = connection.execute(
            "select s.name, current_setting(s.name) from pg_settings as s where s.name = any(%s)",
            (list(SHOWN),),
        )
        return dict(rows.fetchall())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--tenants", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=20, help="length of each run")
    parser.add_argument("--json", type=Path, required=True, help="where the figures go")
    given = parser.parse_args()
    with seeded(given.rows, given.tenants, SETTINGS) as (throwaway, made):
        report: dict[str, Any] = {
            "seed": asdict(made),
            "server": about(throwaway),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores shared with pgbench",
            "seconds": given.seconds,
            "runs": [],
        }
        for script in SCRIPTS:
            for clients in CLIENTS:
                run = measure(throwaway, script, clients, given.seconds, given.tenants)
                report["runs"].append(run)
                print(json.dumps(run), flush=True)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
