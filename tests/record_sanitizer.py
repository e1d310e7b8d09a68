"""Put on record how many tests passed under a sanitizer: `record_sanitizer.py SANITIZER JUNIT_FILE`.

`make sanitize` calls it if there was no report; docs/make_reliability.py reads the record.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

RECORD = Path(__file__).with_name("sanitizers.json")


def passed(path: Path) -> int:
    """The tests of a JUnit file that were run and passed."""
    suites = ElementTree.parse(path).getroot().iter("testsuite")
    return sum(
        int(suite.get("tests", 0))
        - sum(int(suite.get(kind, 0)) for kind in ("errors", "failures", "skipped"))
        for suite in suites
    )


if __name__ == "__main__":
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    record[sys.argv[1]] = passed(Path(sys.argv[2]))
    RECORD.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")
