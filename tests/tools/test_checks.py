"""The checks find what they are there for, in planted sources, and nothing in the checkout's own tools."""

import re
from pathlib import Path

import pytest

from ordo.transport import frame_layout
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
    citations,
    rooms,
    source,
)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty checkout that every check looks at."""
    checks = (check_assert, check_circles, check_constants, check_docs, check_imports, check_nogil, check_rooms)
    for module in (source, citations, check_prose, check_stubs, check_vectors, *checks):
        if hasattr(module, "ROOT"):
            monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(check_names, "ROOT", tmp_path)
    monkeypatch.setattr(check_shapes, "ROOT", tmp_path)
    monkeypatch.setattr(check_sizes, "ROOT", tmp_path)
    monkeypatch.setattr(check_sleeps, "ROOT", tmp_path)
    for module, name in (
        (check_imports, "SEAM_ALLOWED_PATH"),
        (check_shapes, "ALLOWANCES_PATH"),
        (check_sizes, "ALLOWANCES_PATH"),
        (check_sleeps, "ALLOWANCES_PATH"),
    ):
        path = tmp_path / f"{module.__name__}.txt"
        monkeypatch.setattr(module, name, path)
        path.touch()
    monkeypatch.setattr(check_nogil, "ANNOTATE_PATH", tmp_path / "build" / "annotate")
    for package in source.PACKAGES + source.SUPPORT:
        (tmp_path / package).mkdir()
    (tmp_path / "cluster" / "node").mkdir()
    (tmp_path / "cluster" / "node" / "node.py").write_text("assert __debug__\n")
    return tmp_path


def texts(problems: list[source.Problem]) -> list[str]:
    return [str(problem) for problem in problems]


def test_arrows_hold_for_import_and_cimport(house: Path) -> None:
    (house / "runtime" / "a.py").write_text(
        "import ordo.transport.streams.image\nfrom ordo.runtime.errors import OrdoError\n"
    )
    (house / "transport" / "b.pyx").write_text(
        "from ordo.archive.segments.frames cimport X, Y\nfrom ordo.runtime.native.memory cimport Memory\n"
    )
    (house / "consensus" / "c.py").write_text("from ordo.transport.uri import U\nfrom ordo.runtime import errors\n")
    (house / "archive" / "d.py").write_text("from tests.x import y\nfrom runtime.errors import OrdoError\n")
    (house / "cellar").mkdir()
    found = texts(check_imports.check())
    assert [line.split(": ")[0] for line in found] == [
        "archive/d.py:1",
        "archive/d.py:2",
        "consensus/c.py:1",
        "runtime/a.py:1",
        "transport/b.pyx:1",
        "transport/b.pyx:1",
    ]


def test_arrows_hold_between_rooms(house: Path) -> None:
    for room in ("wire", "module", "client"):
        (house / "cluster" / room).mkdir()
    (house / "cluster" / "wire" / "a.py").write_text("from ordo.cluster.module.b import B\n")
    (house / "cluster" / "module" / "b.py").write_text("from ordo.cluster.wire import a\n")
    (house / "cluster" / "client" / "c.pyx").write_text(
        "from ordo.cluster.module.b cimport B\nfrom ordo.cluster.node.d cimport d\n"
    )
    (house / "cluster" / "node" / "d.py").write_text(
        "from ordo.cluster.client import c\nfrom ordo.cluster.module import b\n"
    )
    found = texts(check_imports.check())
    assert [line.split(": ")[0] for line in found] == ["cluster/client/c.pyx:2", "cluster/wire/a.py:1"]


def test_circles_are_found_for_types_and_cimports_too(house: Path) -> None:
    (house / "runtime" / "a.py").write_text("from ordo.runtime.b import B\n")
    (house / "runtime" / "b.py").write_text(
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from ordo.runtime.c import C\n"
    )
    (house / "runtime" / "c.pxd").write_text("from ordo.runtime.d cimport D\n")
    (house / "runtime" / "c.pyi").touch()
    (house / "runtime" / "d.pyx").write_text("from ordo.runtime cimport a\n")
    (house / "transport" / "straight.py").write_text("import ordo.runtime.a\nfrom ordo.runtime import c\n")
    way = " -> ".join(f"ordo.runtime.{name}" for name in "abcda")
    assert texts(check_circles.check()) == [f"runtime/a.py:1: imports in a circle: {way}"]


def test_rooms_are_small_and_have_a_place_a_link_and_one_name(house: Path) -> None:
    for package in source.PACKAGES:
        if package != source.FACE:
            (house / source.FACE / package).symlink_to(Path("..") / package)
            (house / package / "__init__.py").write_text(f'if __name__ != "ordo.{package}":\n    raise ImportError\n')
    for room in rooms.ROOMS:
        (house / room).mkdir(parents=True, exist_ok=True)
        (house / room / "a.py").touch()
    assert texts(check_rooms.check()) == []

    for number in range(rooms.MODULES_MAX):
        (house / "archive" / f"m{number}.pyx").touch()
        (house / "archive" / f"m{number}.pyi").touch()
    (house / "cluster" / "cellar").mkdir()
    (house / "cluster" / "cellar" / "a.py").touch()
    (house / "follow" / "a.py").unlink()
    (house / "ordo" / "gateway").unlink()
    (house / "deploy" / "__init__.py").write_text("")
    assert [line.split(":")[0] for line in texts(check_rooms.check())] == [
        "archive",
        "cluster/cellar",
        "follow",
        "ordo/gateway",
        "deploy/__init__.py",
    ]


def test_world_and_libraries_stay_where_they_belong(house: Path) -> None:
    (house / "consensus" / "a.py").write_text(
        "import socket\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from random import Random\n"
    )
    (house / "runtime" / "b.py").write_text("import pyspark\nimport random\n")
    (house / "cluster" / "c.py").write_text("import time\n")
    found = texts(check_imports.check())
    assert [line.split(": ")[0] for line in found] == ["cluster/c.py:1", "consensus/a.py:1", "runtime/b.py:1"]

    check_imports.SEAM_ALLOWED_PATH.write_text("cluster/c.py  # why\ncluster/gone.py\n")
    found = texts(check_imports.check())
    assert any("cluster/gone.py needs no allowance" in line for line in found)
    assert not any("cluster/c.py:" in line for line in found)


def test_long_functions_and_files_are_found_and_allowances_only_shrink(house: Path) -> None:
    body = "\n".join(f"    x = {number}" for number in range(50))
    (house / "runtime" / "a.py").write_text(f'def long():\n    """Doc\n    string.\n    """\n{body}\n')
    (house / "runtime" / "b.pyx").write_text(f'cdef int ok() noexcept nogil:\n    """Doc."""\n{body[12:]}\n')
    (house / "runtime" / "c.py").write_text("\n" * 801)
    assert texts(check_sizes.check()) == [
        "runtime/a.py:1: long has 51 lines, at most 50",
        "runtime/c.py:1: runtime/c.py has 801 lines, at most 800",
    ]
    check_sizes.ALLOWANCES_PATH.write_text("runtime/a.py::long 52\nruntime/c.py 801\nruntime/b.pyx::ok 60\n")
    found = texts(check_sizes.check())
    assert len(found) == 2
    assert "lower its allowance of 52" in found[0]
    assert "runtime/b.pyx::ok needs no allowance" in found[1]


WIDE = """
from dataclasses import dataclass
from typing import Protocol


class Named(Protocol):
    name: str

    def a(self): ...
    def b(self): ...
    def c(self): ...
    def d(self): ...


class Host(Named, Protocol):
    def e(self): ...
    def f(self): ...


@dataclass(frozen=True)
class Settings:
    %s


class Wide:
    def __init__(self, a, b, c, d, e, f, g, *, h, i):
        %s
"""


def test_wide_constructors_classes_and_protocols(house: Path) -> None:
    fields = "\n    ".join(f"field{one}: int = 0" for one in range(21))
    attributes = "\n        ".join(f"self.field{one} = a.other.field = a" for one in range(21))
    (house / "runtime" / "a.py").write_text(WIDE % (fields, attributes))
    (house / "transport" / "b.pyx").write_text(
        "cdef class Wide:\n    def __cinit__(self, int a, b=(1, 2), *, dict[int, int] c, d, e, f, g, h,\n"
        "                  i=None):\n        pass\n"
    )
    (house / "tests" / "c.py").write_text(WIDE % (fields, attributes))
    found = [one.partition(": group")[0] for one in texts(check_shapes.check())]
    assert found == [
        "runtime/a.py:15: Host has 7 members, at most 6",
        "runtime/a.py:46: Wide has 9 arguments, at most 8",
        "runtime/a.py:45: Wide has 21 attributes, at most 20",
        "transport/b.pyx:2: Wide has 9 arguments, at most 8",
    ]


def test_allowances_of_shapes_only_fall(house: Path) -> None:
    (house / "runtime" / "a.py").write_text(WIDE % ("a: int", "self.a = a"))
    rows = ("a.py::Host members 8", "a.py::Wide arguments 9", "gone.py::Gone members 9")
    check_shapes.ALLOWANCES_PATH.write_text("\n".join(f"runtime/{row}" for row in rows))
    lower, remove = texts(check_shapes.check())
    assert "runtime/a.py::Host members has 7 now: lower its allowance of 8" in lower
    assert "runtime/gone.py::Gone members needs no allowance any more" in remove


def test_assert_and_raise_in_noexcept_functions(house: Path) -> None:
    (house / "runtime" / "a.pyx").write_text(
        "cdef int bad(int x) noexcept nogil:\n    assert x\n    return x\n\n"
        "cdef int caught(int x) noexcept:\n    try:\n        raise ValueError\n"
        "    except ValueError:\n        raise\n\n"
        "cdef int fine(int x) except -1:\n    raise ValueError\n"
    )
    assert [line.split(": ")[0] for line in texts(check_assert.check())] == ["runtime/a.pyx:2", "runtime/a.pyx:9"]
    (house / "cluster" / "node" / "node.py").write_text("")
    assert any("refuses `python -O`" in line for line in texts(check_assert.check()))


def test_memory_that_grows_outside_its_one_place(house: Path) -> None:
    (house / "runtime" / "native").mkdir()
    (house / "runtime" / "native" / "native_vector.pyx").write_text("grown = realloc(self.items, length)\n")
    (house / "transport" / "a.pyx").write_text("from libc.stdlib cimport free\n\nx = <int*> realloc(x, 8)\n")
    (house / "archive" / "b.h").write_text("void *p = reallocarray(q, 2, 8);\n")
    (house / "archive" / "c.pyx").write_text('"""Calls no `realloc`."""\nx = preallocate(1)\n')
    assert texts(check_vectors.check()) == [
        "transport/a.pyx:3: realloc: what grows is a NativeVector (runtime/native/native_vector.pyx)",
        "archive/b.h:1: reallocarray: what grows is a NativeVector (runtime/native/native_vector.pyx)",
    ]


def test_sentences_that_only_their_author_understands(house: Path) -> None:
    def plant(*words: str) -> str:
        return f'def function():\n    """{" ".join(words)}"""\n'

    (house / "runtime" / "a.py").write_text(plant("Closes", "it;", "again", "is", "harmless."))
    (house / "runtime" / "b.pyx").write_text(plant("Likewise" + "."))
    (house / "runtime" / "c.pxd").write_text(plant("Adds", "one;", "answers", "the", "number."))
    (house / "runtime" / "d.py").write_text(plant("The", "newest."))
    (house / "runtime" / "e.py").write_text(plant("Found", "by", "seed", "7611."))
    (house / "runtime" / "f.py").write_text(
        plant("Idempotent.", "The service answers the client, and the newest seed is a number.") + "run(seed=7)\n"
    )
    found = texts(check_prose.check())
    assert sorted(line.split(": ")[0] for line in found) == [
        f"runtime/{name}:2" for name in ("a.py", "b.pyx", "c.pxd", "d.py", "e.py")
    ]


def test_names_of_what_was_renamed_or_deleted(house: Path) -> None:
    (house / "runtime" / "a.py").write_text(
        '"""Opens `Door.open`, which `close` ends; see b.pyx, runtime/b.pyx, runtime.b and `os.fspath`."""\n'
        "class Door:\n    def open(self):  # as `Door(1)` does, and `ordo_step` in C\n        return 'close'\n",
    )
    (house / "runtime" / "b.pyx").write_text("# The `Window` of house.pyx and runtime/c.py.\ncdef int x  # `y`\n")
    (house / "runtime" / "b.h").write_text("int ordo_step(void);\n")
    (house / "runtime" / "d.py").write_text(
        '"""The `Dor` of runtime.c.Door, `os.fpath` (`Door.shut`, at ledger.py:7)."""\n'
    )
    (house / "tests").mkdir(exist_ok=True)
    (house / "tests" / "test_a.py").write_text("# `Neither` is looked at here.\n")
    assert texts(check_names.check()) == [
        f"{place}: names {name}, which is nowhere: mend the comment, or do not quote it"
        for place, name in (
            ("runtime/b.pyx:1", "`Window`"),
            ("runtime/b.pyx:1", "house.pyx"),
            ("runtime/b.pyx:1", "runtime/c.py"),
            ("runtime/b.pyx:2", "`y`"),
            ("runtime/d.py:1", "`Dor`"),
            ("runtime/d.py:1", "`os.fpath`"),
            ("runtime/d.py:1", "`Door.shut`"),
            ("runtime/d.py:1", "runtime.c.Door"),
        )
    ]


def test_idioms_of_another_language(house: Path) -> None:
    (house / "runtime" / "a.py").write_text('"""Adds ' + "so " + 'many records."""\nx = 1  # for ' + "who reads\n")
    found = texts(check_prose.check())
    assert [line.split(": ")[0] for line in found] == ["runtime/a.py:1", "runtime/a.py:2"]
    assert 'say "this many"' in found[0]


def test_idioms_on_pages_and_docstrings_that_begin_as_fragments(house: Path) -> None:
    (house / "docs").mkdir()
    (house / "docs" / "PAGE.md").write_text("Fine.\n\nA member ends in good " + "order.\n\nWho" + "ever asks, waits.\n")
    (house / "runtime" / "a.pyx").write_text('"""Who' + 'ever reads native sources."""\n')
    (house / "runtime" / "a.py").write_text(
        '"""Values of a member, only for reading."""\nx = 1\n"""Of ' + 'the member."""\n'
        'y = 1\n"""By ' + 'service id."""\nz = 1\n"""By far the longest."""\n"""As ' + 'Reader.poll."""\n'
    )
    found = [line.split(": ")[0] for line in texts(check_prose.check())]
    assert found == ["docs/PAGE.md:3", "docs/PAGE.md:5", "runtime/a.py:3", "runtime/a.py:5", "runtime/a.py:8"]


def test_python_objects_in_nogil_functions_and_performance_hints(house: Path) -> None:
    (house / "runtime" / "__init__.py").touch()
    (house / "runtime" / "a.pyx").write_text(
        "cdef class A:\n"
        "    cdef object held\n"
        "    cdef int count\n"
        "    cdef int fine(self) noexcept nogil:\n"
        "        self.count += 1\n"
        "        with gil:\n"
        "            self.held = {}\n"
        "        return self.count\n"
        "cdef void hinted(int x) except * nogil:\n"
        "    if x:\n"
        "        with gil:\n"
        "            raise ValueError\n"
        "def caller():\n"
        "    with nogil:\n"
        "        hinted(1)\n"
    )
    (house / "runtime" / "b.pxd").touch()
    found = texts(check_nogil.check())
    assert found
    assert all("performance hint" in line for line in found)

    lines = ["cdef int f(self) noexcept nogil:", "    with gil:", "        x()", "    return 1"]
    function = next(iter(source.cython_functions(lines)))
    assert list(source.without_gil_blocks(lines, function)) == [4]


def test_scored_line_of_a_nogil_function_is_a_finding(house: Path) -> None:
    (house / "runtime" / "b.pxd").touch()
    module = house / "runtime" / "a.pyx"
    module.write_text("cdef int f(int x) noexcept nogil:\n    x += 1\n    return x\n")
    page = house / "build" / "annotate" / "runtime"
    page.mkdir(parents=True)
    (page / "a.log").write_text("")
    (page / "a.html").write_text(
        '<pre class="cython line score-0">&#xA0;<span class="">1</span>: cdef</pre>\n'
        '<pre class="cython line score-5" onclick="x">+<span class="">2</span>: x</pre>\n'
    )
    assert texts(check_nogil.check()) == [
        "runtime/a.pyx:2: f runs without the GIL but this line scores 5: x += 1",
    ]


def test_module_that_does_not_compile_is_a_finding(house: Path) -> None:
    (house / "runtime" / "b.pxd").touch()
    (house / "runtime" / "a.pyx").write_text("cdef int f(:\n")
    assert "does not compile" in texts(check_nogil.check())[0]


def test_commands_and_links_of_pages(house: Path) -> None:
    (house / "Makefile").write_text("demo: x\ntest: x\ntest-arm64: x\n")
    (house / "docs").mkdir()
    (house / "README.md").write_text(
        "[good](Makefile) [bad](nowhere.md) [web](https://example.org)\n"
        "```sh\nmake demo ITCH=x\nmake nothing && ls\nmake test SUITE=arm64\nmake test SUITE=moon\n```\n"
    )
    assert texts(check_docs.check()) == [
        "README.md:4: make nothing: no such target",
        "README.md:6: make test SUITE=moon: no such target",
        "README.md:1: link to a missing file: nowhere.md",
    ]


def test_citations_in_code_and_docs_name_a_page_and_a_section_that_exist(house: Path) -> None:
    spec = house / "docs" / "spec"
    spec.mkdir(parents=True)
    (house / "Makefile").touch()
    (spec / "wire.md").write_text("# Wire\n\n## 1. Frames\n\n### 1.2 Data\n\n## B3. Files\n\nSee §1.2, not §7.\n")
    (house / "runtime" / "a.pyx").write_text('"""Frames (wire.md §1, §1.2, B3)."""\n')
    (house / "runtime" / "b.py").write_text(
        '"""Frames (gone.md §1)."""\n\n# Long after a page is named (wire.md\n# §1.2 and §9): both count.\n'
        'X = "wire.md §1 (frames), B4; Raft §5.4"\n'
    )
    assert texts(check_docs.check()) == [
        "docs/spec/wire.md:9: wire.md has no section 7",
        "runtime/b.py:1: cites a page that does not exist: gone.md",
        "runtime/b.py:4: wire.md has no section 9",
        "runtime/b.py:5: wire.md has no section B4",
    ]


def test_names_that_a_module_only_imports_need_no_stub(house: Path) -> None:
    (house / "runtime" / "a.pyx").write_text(
        "from runtime.b import ONE, TWO\nfrom runtime.c import (\n    THREE,\n)\nFOUR = 4\n"
    )
    names = ("ONE", "TWO", "THREE", "FOUR")
    found = [name for name in names if check_stubs.is_borrowed(f"runtime.a.{name} is not present in stub")]
    assert found == ["ONE", "TWO", "THREE"]
    assert not check_stubs.is_borrowed("runtime.a.ONE is not present at runtime")
    assert not check_stubs.is_borrowed("elsewhere.ONE is not present in stub")


def test_missing_stub(house: Path) -> None:
    (house / "runtime" / "a.pyx").write_text("def visible():\n    pass\n")
    (house / "runtime" / "b.pyx").write_text("cdef int hidden():\n    return 1\n")
    assert texts(check_stubs.check()) == ["runtime/a.pyx:1: a.pyi is missing: describe its Python API"]


def test_a_constant_is_not_defined_again(house: Path) -> None:
    (house / "runtime" / "native").mkdir()
    (house / "runtime" / "native" / "time_units.pxd").write_text("cpdef enum:\n    SECOND_NS = 1000000000\n")
    (house / "runtime" / "native" / "sentinels.pxd").write_text(
        'cdef extern from "x.h":\n    const int64_t NEVER "MAX"\n'
    )
    (house / "cluster" / "a.py").write_text(
        "SECOND_NS: Final = 10**9\n_NULL_VALUE, OTHER = -1, 2\nf(NULL_POSITION=1)\n"
    )
    (house / "cluster" / "b.pyx").write_text(
        "cdef int64_t NEVER = 5\ncdef enum:\n    _SECOND_NS = 7\nx = f(\n  NEVER=1)\n"
    )
    assert texts(check_constants.check()) == [
        "cluster/a.py:1: SECOND_NS is defined in runtime/native/time_units: import it from there",
        "cluster/a.py:2: NULL_VALUE is defined in runtime/native/sentinels: import it from there",
        "cluster/b.pyx:1: NEVER is defined in runtime/native/sentinels: import it from there",
        "cluster/b.pyx:3: SECOND_NS is defined in runtime/native/time_units: import it from there",
    ]


def test_a_bare_offset_is_found_and_a_stride_is_not(house: Path) -> None:
    (house / "transport" / "a.pyx").write_text(
        "x = ordo_get_i32(frame + 8)\n"
        "ordo_put_i64(self.buffer + index + 4, f(frame + TERM_ID_OFFSET))\n"
        "memcpy(target + TEXT, 12 + datagram, length + 8)\n"
        "flags = frame[5] & FLAG_EOS\n"
        "marks = <int64_t*> (memory.data + 16)\n"
        "ordo_put_i32(header + LENGTHS + 4 * i, length + 8)\n"
        "cdef uint8_t reply[64]\n"
        "length = ordo_get_i32(frame + at)  # frame + 8\n"
        "found = frame[0] if count + 2 else items[3]\n"
    )
    assert texts(check_offsets.check()) == [
        f"transport/a.pyx:{line}: bare offset {number}: name it in the .pxd of the frame or message"
        for line, number in ((1, 8), (2, 4), (3, 12), (4, 5), (5, 16))
    ]


def test_a_default_stands_once(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_defaults, "ROOT", house)
    (house / "archive" / "settings.py").write_text(
        "class ServedSettings:\n    clients_max: int = 64\n    wait_s: float = 5.0\n    port: int = 0\n"
    )
    (house / "archive" / "serve.py").write_text(
        "def serve(folder, clients_max=64, *, wait_s=5.5, port=0): ...\ndef more(clients_max=Served.clients_max): ...\n"
    )
    (house / "gateway" / "serve.py").write_text("def serve(clients_max=64): ...\n")
    assert texts(check_defaults.check()) == [
        "archive/serve.py:1: clients_max=64 stands in ServedSettings in archive/settings.py: take it from there"
    ]


def test_any_stands_no_more_often_than_it_did(house: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allowances = house / "any.txt"
    monkeypatch.setattr(check_any, "ROOT", house)
    monkeypatch.setattr(check_any, "ALLOWANCES_PATH", allowances)
    (house / "runtime" / "io").mkdir()
    (house / "runtime" / "io" / "a.py").write_text("from typing import Any\ndef f(x: Any) -> dict[str, Any]: ...\n")
    (house / "cluster" / "a.pyi").write_text("from typing import Any\nx: Any\n# Any other\n")
    allowances.write_text("# why\nruntime/io 1 # JSON\ncluster 2 # JSON\ntransport 1 # JSON\n")
    assert texts(check_any.check()) == ["runtime/io:1: `Any` stands 2 times, allowed 1: name the type, or a Protocol"]
    check_any.lower()
    assert allowances.read_text() == "# why\nruntime/io 1 # JSON\ncluster 1 # JSON\n"


def test_every_constant_is_defined_in_its_home() -> None:
    for home, names in check_constants.HOMES.items():
        path = (source.ROOT / home).with_suffix(".pxd")
        read = check_constants.cython_definitions
        if not path.exists():
            path, read = path.with_suffix(".py"), check_constants.python_definitions
        assert set(names) <= {name for _, name in read(path.read_text())}, home


def test_native_code_has_the_same_lengths_of_frames() -> None:
    for name, path in check_constants.NATIVE.items():
        found = re.findall(rf"^ +{name} = (\d+)$", (source.ROOT / path).read_text(), re.MULTILINE)
        assert found == [str(getattr(frame_layout, name))], path


def test_a_test_that_waits_for_a_moment_is_found_and_a_poll_is_not(house: Path) -> None:
    (house / "tests" / "test_a.py").write_text(
        "import asyncio, time\n"
        "def test_moment():\n    time.sleep(1)\n"
        "def test_state():\n    while not ready():\n        time.sleep(0.1)\n"
        "class Client:\n    async def work(self):\n        await asyncio.sleep(0)\n        await asyncio.sleep(2)\n"
        "def test_each():\n    while ready():\n        for one in 1, 2:\n            time.sleep(one)\n"
    )
    problems = texts(check_sleeps.check())
    assert [one.partition(": ")[0] for one in problems] == [f"tests/test_a.py:{line}" for line in (3, 10, 14)]
    check_sleeps.ALLOWANCES_PATH.write_text(
        "# comment\ntests/test_a.py::test_moment # the pause is what is tested\ntests/test_a.py::Client.work\n"
        "tests/test_a.py::test_each # so it is\ntests/test_a.py::test_gone # no more\n"
    )
    problems = texts(check_sleeps.check())
    assert len(problems) == 2
    assert "tests/test_a.py::test_gone does not sleep any more" in problems[0]
    assert "tests/test_a.py::Client.work: say why" in problems[1]
