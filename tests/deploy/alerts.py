"""A healthy cluster as promtool sees it, made of what real nodes were scraped for, and what faults change in it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

STEPS = 90
"""Of ten seconds."""
CHECKED_AT = "14m"
SAMPLE = re.compile(r"^(ordo_\w+)\{(.*)\} (\S+)$", re.MULTILINE)
OF_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")

FAULTS: dict[str, tuple[set[str], list[tuple[str, str, str]]]] = {
    "OrdoNoQuorum": (set(), [("ordo_has_quorum", "", "0x90")]),
    "OrdoMemberDown": (set(), [("ordo_node_up", 'member="2"', "0x90")]),
    "OrdoMemberCutOff": (set(), [("ordo_has_quorum", 'member="2"', "0x90")]),
    "OrdoFollowerBehind": (
        set(),
        [
            ("ordo_commit_position_bytes", "", "1e8x90"),
            ("ordo_log_position_bytes", 'member="[019]"', "1e8x90"),
        ],
    ),
    "OrdoServiceBehind": (set(), [("ordo_service_lag_bytes", 'member="2"', "1e8x90")]),
    "OrdoDiskLow": (set(), [("ordo_data_free_bytes", 'member="2"', "1.5e6x90")]),
    "OrdoDiskFull": ({"OrdoDiskLow"}, [("ordo_data_free_bytes", 'member="2"', "1e6x90")]),
    "OrdoSharedMemoryLow": (set(), [("ordo_shared_memory_free_bytes", 'member="2"', "3e7x90")]),
    "OrdoErrors": (set(), [("ordo_errors_total", 'member="2"', "0x80 1x9")]),
    "OrdoDistrusted": (set(), [("ordo_distrust", 'member="2"', "1x90")]),
    "OrdoDamaged": (set(), [("ordo_damage_left", 'member="2"', "1x90")]),
    "OrdoElections": (set(), [("ordo_elections_total", 'member="2"', "0+1x90")]),
    "OrdoClock": (set(), [("ordo_clock_seconds", 'member="2"', "5+10x90")]),
    "OrdoClockUnsynchronized": (set(), [("ordo_clock_synchronized", 'member="2"', "0x90")]),
    "OrdoClockUncertain": (set(), [("ordo_clock_error_bound_seconds", 'member="2"', "2x90")]),
    "OrdoRefused": (set(), [("ordo_refused_total", 'member="2",reason="setup_rate"', "0+5x90")]),
    "OrdoStandbyBehind": (set(), [("ordo_standby_lag_seconds", 'member="9"', "90x90")]),
}
"""By alert: which others fire with it, and the series of it: metric, a pattern of its labels, promtool's values."""

HEALTHY_CLOCK = {
    "ordo_clock_seconds": f"0+10x{STEPS}",
    "ordo_clock_synchronized": f"1x{STEPS}",
    "ordo_clock_offset_seconds": f"0x{STEPS}",
    "ordo_clock_error_estimate_seconds": f"0.0001x{STEPS}",
    "ordo_clock_error_bound_seconds": f"0.02x{STEPS}",
}
"""What the machine that tests run on need not have: a clock that is kept."""


def series_of(scrapes: Mapping[str, str]) -> dict[str, str]:
    """promtool's values by series, as Prometheus names it: instance by instance what its scrape said, unchanged for
    STEPS, clocks aside."""
    found = {}
    for instance, text in scrapes.items():
        place = f'instance="{instance}",job="ordo"'
        found[f"up{{{place}}}"] = f"1x{STEPS}"
        for name, labels, value in SAMPLE.findall(text):
            values = HEALTHY_CLOCK.get(name) or f"{float(value):.0f}x{STEPS}"
            if not OF_HISTOGRAM.search(name):
                found[f"{name}{{{labels},{place}}}"] = values
    return found


def with_fault(series: Mapping[str, str], changes: Sequence[tuple[str, str, str]]) -> dict[str, str]:
    """The series with other values in some; each change must concern one at least."""
    changed = dict(series)
    for name, labels, values in changes:
        concerned = [one for one in series if re.match(rf"{name}\{{.*{labels}.*\}}", one)]
        assert concerned, f"no node shows {name}{{{labels}}}"
        changed |= dict.fromkeys(concerned, values)
    return changed


def rules_test(rules: str, scrapes: Mapping[str, str]) -> str:
    """The input of `promtool test rules`: nothing fires in the healthy cluster, and with each fault its alert alone."""
    healthy = series_of(scrapes)
    cases = [_case("a healthy cluster", healthy, set())]
    for alert, (others, changes) in FAULTS.items():
        cases.append(_case(alert, with_fault(healthy, changes), {alert, *others}))
    return json.dumps({"rule_files": [rules], "evaluation_interval": "10s", "tests": cases})


def _case(name: str, series: Mapping[str, str], firing: set[str]) -> dict[str, Any]:
    return {
        "name": name,
        "interval": "10s",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": CHECKED_AT,
                "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in sorted(firing)],
            }
        ],
    }
