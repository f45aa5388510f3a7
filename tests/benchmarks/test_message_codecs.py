"""The ways that `ordo bench messages` compares write and read the same message."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from ordo.bench.message_codecs import NAMES, VALUES, measure_message_codecs, show_message_codecs, ways


def test_each_way_reads_what_it_wrote() -> None:
    found = {way.name: way for way in ways()}
    assert {"Ordo", "struct"} <= set(found)
    assert found["Ordo"].write() == found["struct"].write()
    for way in found.values():
        read = way.read()
        values = read if isinstance(read, tuple) else tuple(getattr(read, name) for name in NAMES)
        assert values == VALUES, way.name


def test_figures_are_measured_and_shown() -> None:
    console = Console(file=StringIO(), width=120)
    figures = measure_message_codecs(1, 10)
    show_message_codecs(console, figures)
    assert figures["message_codec_ns"]["Ordo"]["bytes"] == 44
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(name in text for name in figures["message_codec_ns"])
