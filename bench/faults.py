"""Every fault against real processes: nothing acknowledged is lost, nothing is doubled.

    python -m bench.faults --json FILE [--only NAME …]

One JSON line per fault: what clients were told, how long it took, whether its check passed. The
last line sums up. A fault that cannot be made on this machine counts as failed, with the reason.
"""

from __future__ import annotations

import argparse
import json
import platform
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import fault_crashes, fault_disks, fault_models, fault_readonly
from bench.fault_world import World, world

Check = Callable[[World], dict[str, Any]]

CHECKS: tuple[Check, ...] = (
    fault_crashes.two_servers,
    fault_crashes.kill9_server,
    fault_crashes.kill9_postgres,
    fault_crashes.embedded_revived,
    fault_crashes.restart,
    fault_crashes.database_down,
    fault_disks.full_disk,
    fault_disks.full_disk_embedded,
    fault_readonly.read_only,
    fault_readonly.standby,
    fault_readonly.database_starting,
    fault_models.endpoint_down,
    fault_models.endpoint_slow,
    fault_models.endpoint_hanging,
    fault_models.endpoint_wrong_dimensions,
    fault_models.endpoint_truncated,
    fault_models.endpoint_rate_limited,
    fault_models.endpoint_short,
    fault_models.two_workers,
    fault_models.start_without_endpoint,
)
ALSO = {"database_down": "pool_survives_restart"}
"""What a check finds out beside its own result."""
NEEDED = 500


def run(check: Check, on: World) -> dict[str, Any]:
    """One check; a failure of its own is a fault that did not pass."""
    begun = time.monotonic()
    try:
        record = check(on)
    except Exception as error:
        traceback.print_exc()
        record = {"passed": False, "reason": f"{type(error).__name__}: {error}"}
    seconds = round(time.monotonic() - begun, 1)
    return {"fault": check.__name__, "seconds": seconds, **record}


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The last line."""
    total = {
        name: sum(record.get(name, 0) for record in records if "acknowledged" in record)
        for name in ("acknowledged", "lost", "doubled")
    }
    found = sum(record["acknowledged"] - record["lost"] for record in records if "lost" in record)
    faults: dict[str, bool] = {}
    for record in records:
        faults[record["fault"]] = bool(record["passed"])
        if also := ALSO.get(record["fault"]):
            faults[also] = bool(record.get(also))
    return {
        "acknowledged": total["acknowledged"],
        "found": found,
        "lost": total["lost"],
        "doubled": total["doubled"],
        "faults": faults,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    parser.add_argument("--only", nargs="+", metavar="NAME", default=[])
    given = parser.parse_args()
    # ended like by Ctrl-C, so that no process stays behind
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    chosen = [check for check in CHECKS if not given.only or check.__name__ in given.only]
    records: list[dict[str, Any]] = []
    given.json.parent.mkdir(parents=True, exist_ok=True)
    with given.json.open("w") as out:

        def write(line: dict[str, Any]) -> None:
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
            out.flush()

        write({"python": platform.python_version(), "machine": platform.machine()})
        with world() as on:
            for check in chosen:
                record = run(check, on)
                records.append(record)
                write(record)
                print("passed" if record["passed"] else "FAILED", record, flush=True)
        last = summary(records)
        write(last)
    print(json.dumps(last))
    if not all(last["faults"].values()) or last["lost"] or last["doubled"]:
        sys.exit(1)
    if not given.only and last["acknowledged"] < NEEDED:
        sys.exit(f"only {last['acknowledged']} saves were acknowledged")


if __name__ == "__main__":
    main()
