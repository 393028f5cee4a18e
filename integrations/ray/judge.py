"""The verdict about one object: rewritten, proved and verified, or the reason why not."""

import time
from typing import Any, Dict, List, Optional, Tuple

import sfi
from packages import Plan, Unit, archives, fetch, sha256

# The columns of the results, and their types in Parquet.
COLUMNS = {
    "package": "string",
    "version": "string",
    "archive": "string",
    "object": "string",
    "mode": "string",
    "verdict": "string",
    "rule": "string",
    "refusal": "string",
    "function": "string",
    "input_bytes": "int64",
    "output_bytes": "int64",
    "text_bytes": "int64",
    "rewritten_text_bytes": "int64",
    "rewrite_seconds": "double",
    "verify_seconds": "double",
    "node": "string",
}
VERDICTS = {
    "safe": "rewritten, proved and verified",
    "refused": "the rewriter refuses it",
    "not-proved": "the rewritten code is not proved to do the original's work",
    "violation": "the verifier refuses the rewritten object",
    "no-object": "no relocatable object for x86-64",
    "unfinished": "the time limit was over, or the worker died",
}
NOT_PROVED = "SFI-V01"
NO_OBJECT = ("SFI-W01", "SFI-W13")
# The longest text of a hostile object that is kept.
LONGEST = 500


def row(plan: Plan, archive: str, name: str, mode: str, verdict: str, **more: Any) -> Dict[str, Any]:
    """Returns a row of the results."""
    empty: Dict[str, Any] = {name: None for name in COLUMNS}
    known = {"package": plan.package, "version": plan.version, "archive": archive, "object": name[:LONGEST]}
    return {**empty, **known, "mode": mode, "verdict": verdict, **more}


def text_bytes(data: bytes) -> Optional[int]:
    """Returns the bytes of text of an object that cannot be rewritten."""
    [verdict] = sfi.verify(data)
    return verdict.text_bytes if verdict.error is None else None


def judge(data: bytes, mode: str) -> Tuple[str, Dict[str, Any]]:
    """Rewrites, proves and verifies an object. Times are those of this thread's processor."""
    start = time.thread_time()
    facts: Dict[str, Any] = {"input_bytes": len(data)}
    try:
        rewritten = sfi.rewrite(data, mode=mode)
    except sfi.RewriteError as error:
        facts["rewrite_seconds"] = time.thread_time() - start
        first = error.refusals[0]
        facts.update(rule=first.reason, refusal=(first.detail or first.title)[:LONGEST], function=first.function)
        if first.reason in NO_OBJECT:
            return "no-object", facts
        facts["text_bytes"] = text_bytes(data)
        return ("not-proved" if first.reason == NOT_PROVED else "refused"), facts
    between = time.thread_time()
    [verdict] = sfi.verify(rewritten.data, mode=mode)
    facts.update(
        output_bytes=len(rewritten.data),
        text_bytes=rewritten.text_in,
        rewritten_text_bytes=rewritten.text_out,
        rewrite_seconds=between - start,
        verify_seconds=time.thread_time() - between,
    )
    if verdict.safe:
        return "safe", facts
    worst = verdict.violations[0] if verdict.violations else None
    why = verdict.error or (worst.detail or worst.title if worst else "")
    return "violation", {**facts, "rule": worst.rule if worst else None, "refusal": why[:LONGEST]}


def process(plan: Plan, unit: Unit, mode: str, node: str) -> List[Dict[str, Any]]:
    """Judges the objects of a unit."""
    path = fetch(plan.source, plan.digest)
    if sha256(path) != plan.digest:
        raise RuntimeError(f"`{plan.source}` is not the package that was planned")
    rows = []
    for archive, data in archives(path, unit.archive):
        for name, member in sfi.members(data)[unit.first : unit.first + unit.count]:
            verdict, facts = judge(member, mode)
            rows.append(row(plan, archive, name, mode, verdict, node=node, **facts))
    if len(rows) != unit.count:
        raise RuntimeError(f"`{unit.archive}` of `{plan.source}` has other members than planned")
    return rows
