"""The summary that the repository's tests count."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parent.parent / "python/tests"))
from summary import pytest_terminal_summary  # noqa: E402, F401
