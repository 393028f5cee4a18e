"""The results in a folder, so that a run that was interrupted goes on where it was."""

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, List, Optional

import pyarrow as pa
import pyarrow.parquet as pq

from judge import COLUMNS
from packages import Plan, Unit

TYPES = {"string": pa.string(), "int64": pa.int64(), "double": pa.float64()}
SCHEMA = pa.schema([(name, TYPES[kind]) for name, kind in COLUMNS.items()])


def write(path: Path, data: bytes) -> None:
    """Writes a file that is there as a whole or not at all."""
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


class Store:
    """The folder of a run."""

    def __init__(self, folder: Path, settings: Dict[str, str]) -> None:
        self.folder, self.mode = folder, settings["mode"]
        for name in ("plans", "parts"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        run = folder / "run.json"
        if not run.exists():
            write(run, json.dumps(settings).encode())
        elif (known := json.loads(run.read_text())) != settings:
            raise SystemExit(f"error: {folder} holds a run with other settings: {known}, not {settings}")

    def plan_path(self, source: str) -> Path:
        """Returns the place of a package's plan."""
        name = hashlib.sha256(source.encode()).hexdigest()[:24]
        return self.folder / "plans" / f"{name}.json"

    def plan(self, source: str) -> Optional[Plan]:
        """Returns the plan of a package, if it was made."""
        path = self.plan_path(source)
        if not path.exists():
            return None
        fields = json.loads(path.read_text())
        return Plan(**{**fields, "units": [Unit(**unit) for unit in fields["units"]]})

    def put_plan(self, plan: Plan) -> None:
        """Keeps a plan."""
        write(self.plan_path(plan.source), json.dumps(asdict(plan)).encode())

    def part(self, plan: Plan, unit: Unit) -> Path:
        """Returns the place of a unit's rows."""
        key = f"{plan.digest}:{unit.archive}:{unit.first}:{unit.count}:{self.mode}"
        return self.folder / "parts" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.parquet"

    def missing(self, plan: Plan, unit: Unit) -> List[Unit]:
        """Returns the units that are still to do, of a unit that may have been cut."""
        if self.part(plan, unit).exists():
            return []
        if self.part(plan, unit).with_suffix(".cut").exists():
            return [part for half in unit.halves() for part in self.missing(plan, half)]
        return [unit]

    def cut(self, plan: Plan, unit: Unit) -> List[Unit]:
        """Notes that a unit is too large, and returns its halves."""
        write(self.part(plan, unit).with_suffix(".cut"), b"")
        return unit.halves()

    def put(self, plan: Plan, unit: Unit, rows: List[Dict[str, Any]]) -> None:
        """Keeps the rows of a unit."""
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), sink)
        write(self.part(plan, unit), sink.getvalue().to_pybytes())

    def all(self, plans: List[Plan]) -> pa.Table:
        """Returns the rows of all packages, and keeps them in one file."""
        parts = []
        for plan in plans:
            waiting = list(plan.units)
            while waiting:
                unit = waiting.pop()
                path = self.part(plan, unit)
                if path.exists():
                    parts.append(pq.read_table(path, schema=SCHEMA))
                elif path.with_suffix(".cut").exists():
                    waiting.extend(unit.halves())
        table = pa.concat_tables(parts) if parts else SCHEMA.empty_table()
        table = table.sort_by([("package", "ascending"), ("archive", "ascending"), ("object", "ascending")])
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        write(self.folder / "results.parquet", sink.getvalue().to_pybytes())
        return table
