"""The summary of a run of tests, as the repository's other tests print it."""

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints the names of failed tests, and the counts."""
    counts = {name: len(terminalreporter.getreports(name)) for name in ("passed", "failed", "error")}
    failed = [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]
    for report in failed:
        print(f"test {report.nodeid} ... FAILED")
    verdict = "FAILED" if failed else "ok"
    print(f"test result: {verdict}. {counts['passed']} passed; {len(failed)} failed;")
