"""Rewrites, proves and verifies the static archives of packages over the workers of a Ray cluster.

    python fleet.py --out results zlib1g-dev libpng-dev
    python fleet.py --out results --address ray://head:10001 --list packages.txt

A run that was interrupted goes on where it was when it is started again. README.md has the rest.
"""

import argparse
import os
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any, Deque, Dict, List, Tuple

import ray
from ray import cloudpickle

import judge
import packages
import report
import sfi
from packages import Plan, Unit
from store import Store

# Workers need no copy of these files, only the package `sfi`.
for module in (judge, packages, sys.modules[__name__]):
    cloudpickle.register_pickle_by_value(module)


@ray.remote(num_cpus=1, max_retries=2)
def plan_task(source: str) -> Plan:
    """Plans a package."""
    return packages.plan(source)


@ray.remote(num_cpus=1, max_retries=0)
def unit_task(plan: Plan, unit: Unit, mode: str) -> List[Dict[str, Any]]:
    """Judges a unit."""
    return judge.process(plan, unit, mode, ray.get_runtime_context().get_node_id())


class Run:
    """The tasks in progress and those that wait."""

    def __init__(self, store: Store, sources: List[str], limit: float) -> None:
        self.store, self.limit = store, limit
        self.plans: Dict[str, Plan] = {}
        self.failures: List[str] = []
        self.computed = 0
        self.waiting: Deque[Tuple[Plan, Unit]] = deque()
        self.unplanned: Deque[str] = deque()
        self.running: Dict[Any, Tuple[Any, float]] = {}
        for source in sources:
            known = store.plan(source)
            self.add(known) if known else self.unplanned.append(source)

    def add(self, plan: Plan) -> None:
        """Takes a plan, and its units that have no rows yet."""
        self.plans[plan.source] = plan
        for unit in plan.units:
            self.waiting.extend((plan, part) for part in self.store.missing(plan, unit))

    def start(self) -> None:
        """Starts tasks while workers are free. Work that waits longer would only fill memory."""
        free = int(ray.cluster_resources().get("CPU", 1)) - len(self.running)
        for _ in range(free):
            if self.waiting:
                plan, unit = self.waiting.popleft()
                task = unit_task.remote(plan, unit, self.store.mode)
                self.running[task] = ((plan, unit), time.monotonic())
            elif self.unplanned:
                source = self.unplanned.popleft()
                self.running[plan_task.remote(source)] = (source, time.monotonic())

    def finish(self, task: Any) -> None:
        """Keeps the result of a task."""
        what, _ = self.running.pop(task)
        try:
            result = ray.get(task)
        except Exception as error:
            self.fail(what, error)
            return
        if isinstance(result, Plan):
            self.store.put_plan(result)
            self.add(result)
        else:
            self.store.put(*what, result)
            self.computed += 1

    def fail(self, what: Any, error: BaseException) -> None:
        """Cuts a unit that failed, or notes the one object that cannot be finished."""
        why = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        if isinstance(what, str):
            self.failures.append(f"{what}: {why[0]}")
            return
        plan, unit = what
        lost = isinstance(error, (ray.exceptions.WorkerCrashedError, ray.exceptions.TaskCancelledError))
        if not lost:
            self.failures.append(f"{plan.source}: {unit.archive}: {why[0]}")
        elif unit.count > 1:
            self.waiting.extendleft((plan, half) for half in self.store.cut(plan, unit))
        else:
            name = f"member {unit.first + 1}"
            rows = [judge.row(plan, unit.archive, name, self.store.mode, "unfinished", refusal=why[0])]
            self.store.put(plan, unit, rows)

    def all(self) -> None:
        """Runs until nothing is left."""
        while self.waiting or self.unplanned or self.running:
            self.start()
            ready, _ = ray.wait(list(self.running), timeout=1)
            for task in ready:
                self.finish(task)
            for task, (_, since) in list(self.running.items()):
                if time.monotonic() - since > self.limit:
                    ray.cancel(task, force=True)


def arguments(words: List[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="fleet.py", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help="a name that apt knows, or a .deb")
    parser.add_argument("--list", type=Path, metavar="FILE", help="a file with more packages, one a line")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder of the run")
    parser.add_argument("--mode", default="write", choices=["write", "full", "match"])
    parser.add_argument("--address", help="a cluster that runs; without it, one is started here")
    parser.add_argument("--workers", type=int, default=2, help="workers of the cluster that is started here")
    parser.add_argument("--unit-seconds", type=float, default=600, help="the most time of a task")
    parser.add_argument("--population", type=int, default=0, metavar="N", help="packages in the whole distribution")
    parser.add_argument("--cores", type=int, default=8, help="cores of a machine, for the estimate")
    return parser.parse_args(words)


def connect(args: argparse.Namespace) -> None:
    """Connects to the cluster, or starts one."""
    # Ray reports its use to its makers otherwise.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if args.address:
        ray.init(address=args.address, log_to_driver=False)
    else:
        ray.init(num_cpus=args.workers, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False)


def main(words: List[str]) -> int:
    """Runs the whole list."""
    args = arguments(words)
    listed = args.list.read_text().split() if args.list else []
    sources = list(dict.fromkeys([*args.packages, *listed]))
    store = Store(args.out, {"mode": args.mode, "sfi": sfi.__version__})
    start = time.monotonic()
    run = Run(store, sources, args.unit_seconds)
    if run.waiting or run.unplanned:
        connect(args)
        try:
            run.all()
        finally:
            ray.shutdown()
    plans = list(run.plans.values())
    table = store.all(plans)
    estimate = report.Estimate(args.population, args.cores)
    summary = report.write(args.out / "index.html", table, plans, run.failures, estimate)
    for failure in run.failures:
        print(f"failed: {failure}", file=sys.stderr)
    print(f"{run.computed} units computed in {time.monotonic() - start:.1f} s, {table.num_rows} objects in all")
    print(summary)
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
