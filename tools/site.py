"""The hooks of the documentation site, `mkdocs.yml`: what it shows beside the pages of docs/.

The README is its first page. What pages link to outside docs/, and every example, is a page below `source/`. The API
reference, which `tools.reference` writes, is below `api/`.
"""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools import reference
from tools.source import ROOT

README = "README.md"
EXAMPLES = "examples"
_LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds what is not in docs/."""
    outside = {README: None, EXAMPLES: None, **dict.fromkeys(_example_files())}
    for uri in (README, *(file.src_uri for file in files.documentation_pages())):
        outside |= dict.fromkeys(path for path in _linked(uri) if not path.startswith("docs/"))
    for path in outside:
        files.append(File.generated(config, _uri_of(path), content=_text_of(path)))
    for uri, page in _reference():
        files.append(File.generated(config, f"api/{uri}", content=page))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links between files of the repository into links between pages of the site."""
    here = page.file.src_uri

    def turned(match: re.Match[str]) -> str:
        path = _resolved(here, match[1])
        return match[1] if path is None else relpath(_uri_of(path), dirname(here) or ".")

    return _LINK.sub(turned, markdown)


def _uri_of(path: str) -> str:
    """Returns where the site shows a file or folder of the repository."""
    if path == README:
        return path
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"


def _path_of(uri: str) -> str:
    """Returns what a page shows, as `_uri_of` has it the other way round."""
    if uri == README:
        return uri
    if not uri.startswith("source/"):
        return f"docs/{uri}"
    path = uri.removeprefix("source/")
    return path if (ROOT / path).exists() else path.removesuffix(".md")


def _resolved(uri: str, link: str) -> str | None:
    """Returns the file or folder of the repository that a link on a page names; None where there is none."""
    path = normpath(join(dirname(_path_of(uri)), link))
    return path if not path.startswith("..") and (ROOT / path).exists() else None


def _linked(uri: str) -> Iterator[str]:
    for link in _LINK.findall((ROOT / _path_of(uri)).read_text()):
        path = _resolved(uri, link)
        if path is not None:
            yield path


def _example_files() -> list[str]:
    found = (ROOT / EXAMPLES).rglob("*.py")
    return [str(path.relative_to(ROOT)) for path in sorted(found) if path.name != "__init__.py"]


def _text_of(path: str) -> str:
    """Returns the page for a file of the repository, or for the examples."""
    if path == EXAMPLES:
        rows = "".join(f"| [{one}]({one}) | {_first_line(one)} |\n" for one in _example_files())
        return f"# Examples\n\n| file | what it is |\n|---|---|\n{rows}"
    if not (ROOT / path).is_file():
        raise PluginError(f"{path}: the site shows files, and of folders only {EXAMPLES}")
    text = (ROOT / path).read_text()
    return text if path.endswith(".md") else f"# {path}\n\n````{Path(path).suffix[1:]}\n{text}````\n"


def _first_line(path: str) -> str:
    return (ast.get_docstring(ast.parse((ROOT / path).read_text())) or "").partition("\n")[0]


def _reference() -> Iterator[tuple[str, str]]:
    """Yields the pages of the API reference."""
    with tempfile.TemporaryDirectory() as written:
        folder = Path(written)
        problems = reference.write(folder)
        if problems:
            raise PluginError("\n".join(problems))
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            yield str(path.relative_to(folder)), path.read_text()
