"""The rules of the house, one check each: `python -m tools.verify [check ...]`. Writes below build/ only."""

from __future__ import annotations

import sys

from tools import (
    check_any,
    check_assert,
    check_circles,
    check_constants,
    check_defaults,
    check_docs,
    check_imports,
    check_names,
    check_nogil,
    check_offsets,
    check_prose,
    check_rooms,
    check_shapes,
    check_sizes,
    check_sleeps,
    check_stubs,
    check_vectors,
    configuration,
    errors_page,
    house_page,
    metrics_page,
    records,
)

CHECKS = {
    "imports": check_imports.check,
    "circles": check_circles.check,
    "rooms": check_rooms.check,
    "sizes": check_sizes.check,
    "shapes": check_shapes.check,
    "constants": check_constants.check,
    "defaults": check_defaults.check,
    "offsets": check_offsets.check,
    "sleeps": check_sleeps.check,
    "assert": check_assert.check,
    "vectors": check_vectors.check,
    "stubs": check_stubs.check,
    "any": check_any.check,
    "docs": check_docs.check,
    "prose": check_prose.check,
    "names": check_names.check,
    "configuration": configuration.check,
    "metrics": metrics_page.check,
    "records": records.check,
    "errors": errors_page.check,
    "house": house_page.check,
    "nogil": check_nogil.check,
}


def main(names: list[str]) -> int:
    """Runs the named checks, or all; 0 when none has a finding, 2 for an unknown name."""
    unknown = set(names) - set(CHECKS)
    if unknown:
        print(f"unknown check: {', '.join(sorted(unknown))}; allowed: {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    count = 0
    for name in names or CHECKS:
        problems = CHECKS[name]()
        count += len(problems)
        print(f"{name}: {len(problems) or 'no'} finding{'s' if len(problems) != 1 else ''}")
        for problem in problems:
            print(f"  {problem}")
    return 1 if count else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
