"""`python -m tests.scenarios [--rewrite] [FILE ...]`: plays scenarios; --rewrite puts down what they print now."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.scenarios.runner import parse, play, render

FOLDER = Path(__file__).parent


def main() -> int:
    """Exit status 1 when a trace is another one than the file says."""
    parser = argparse.ArgumentParser(prog="python -m tests.scenarios", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="default: all of tests/scenarios/*.txt")
    parser.add_argument("--rewrite", action="store_true", help="write the traces anew")
    options = parser.parse_args()
    status = 0
    for path in options.files or sorted(FOLDER.glob("*.txt")):
        played = play(path)
        if options.rewrite:
            path.write_text(render(played))
        elif played != parse(path.read_text()):
            status = 1
            print(f"{path}: now\n{render(played)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
