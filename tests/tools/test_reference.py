"""The API reference shows every public name with its types, and says what it lacks."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import ordo
import ordo.errors
import ordo.testing
from tools import reference


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pages by module, as a reader sees them but for the markup of names."""
    pytest.importorskip("pyarrow", reason="ordo.read needs it")
    folder = tmp_path_factory.mktemp("reference")
    exported = list(ordo.__all__)
    assert reference.write(folder) == []
    assert ordo.__all__ == exported
    assert (folder / "index.html").stat().st_size > 0
    assert (folder / "search.js").stat().st_size > 0
    return {name: (folder / f"{name.replace('.', '/')}.html").read_text() for name in reference.MODULES}


@pytest.mark.thorough
def test_every_public_name_is_in_its_page(pages: dict[str, str]) -> None:
    for module in (ordo, ordo.errors, ordo.testing):
        shown = set(re.findall(r'<section id="(\w+)"', pages[module.__name__]))
        assert shown == set(module.__all__) - {"__version__"} | ({"read"} if module is ordo else set())
        assert ordo.__version__ in pages[module.__name__]


def test_what_cython_compiled_has_the_types_of_its_stub(pages: dict[str, str]) -> None:
    text = " ".join(re.sub(r"<[^>]+>", "", pages["ordo"]).split())
    signature = "position: int = 0, leadership_term_id: int = -1, sequence: int = 0, arrival_ns: int | None = None"
    assert signature in text
    assert "int64_t" not in text


def test_types_are_named_as_users_import_them_and_linked(pages: dict[str, str]) -> None:
    assert '<a href="#Role">Role</a>' in pages["ordo"]
    assert '<a href="../ordo.html#CloseReason">ordo.CloseReason</a>' in pages["ordo.testing"]
    assert "ordo.service_api.cluster." not in pages["ordo"]


def test_what_is_undocumented_or_not_there_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("reference_probe", "A module with gaps.")
    source = "class Silent:\n    def call(self):\n        pass\ndef noted(count: Missing) -> None:\n    '''Noted.'''\n"
    exec(f"from __future__ import annotations\n{source}", vars(module))
    vars(module)["__all__"] = ["Silent", "noted"]
    monkeypatch.setitem(sys.modules, "reference_probe", module)
    problems = reference.write(tmp_path, ("reference_probe",))
    assert "reference_probe.Silent: no docstring" in problems
    assert "reference_probe.Silent.call: no docstring" in problems
    assert [p for p in problems if p.startswith("pdoc: ") and "Missing" in p]
    assert not [p for p in problems if "noted: " in p]
