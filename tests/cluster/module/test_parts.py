"""The parts of a member are given what they need, and never the consensus module, which could reach everything."""

from __future__ import annotations

import ast

from tools.source import ROOT

MODULE = ROOT / "cluster" / "module" / "consensus_module.py"


def test_the_consensus_module_hands_itself_to_nobody() -> None:
    calls = [one for one in ast.walk(ast.parse(MODULE.read_text())) if isinstance(one, ast.Call)]
    given = [(call, [*call.args, *(one.value for one in call.keywords)]) for call in calls]
    assert len(calls) > 50
    assert [ast.unparse(call) for call, values in given if any(ast.unparse(one) == "self" for one in values)] == []


def test_no_part_names_the_consensus_module() -> None:
    parts = [path for path in (ROOT / "cluster" / "module").rglob("*.py") if path != MODULE]
    assert len(parts) > 50
    assert [path.name for path in parts if "module.consensus_module" in path.read_text()] == []
