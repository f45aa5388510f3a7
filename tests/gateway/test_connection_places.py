"""Places for connections: none too many, and no address has them all."""

from __future__ import annotations

from ordo.gateway.doors.connection_places import ConnectionPlaces


def test_no_address_has_more_than_its_share_and_all_together_no_more_than_there_are() -> None:
    places = ConnectionPlaces(5, 3)
    assert [places.take("one") for _ in range(4)] == [True, True, True, False]
    assert [places.take("two") for _ in range(3)] == [True, True, False]
    assert len(places) == 5
    assert not places.take("three") and len(places) == 5


def test_a_place_that_is_given_back_is_taken_again() -> None:
    places = ConnectionPlaces(2, 1)
    assert places.take("one") and not places.take("one")
    places.give_back("one")
    assert places.take("two") and places.take("one") and len(places) == 2
