"""docs/ERRORS.md has every error of the tree, with what to do."""

from ordo import errors
from tools import errors_page


def test_every_error_that_users_meet_has_a_row_with_a_remedy() -> None:
    rows = {row.split("`")[1]: row for row in errors_page.render().splitlines() if row.startswith("| `")}
    names = {name for name in errors.__all__ if issubclass(getattr(errors, name), errors.OrdoError)}
    assert set(rows) == names
    assert all(row.split("|")[5].strip() for row in rows.values())


def test_an_error_without_a_remedy_is_a_finding() -> None:
    class BareError(errors.StorageError):
        """Says nothing of what to do."""

    assert errors_page.parts_of(BareError) == ("Says nothing of what to do.", "")
    assert errors_page.parts_of(errors.StorageFullError)[0] == "A device has no room left."
