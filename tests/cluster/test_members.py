"""Members and their endpoints (cluster-consensus.md §1.1)."""

import pytest

from cluster.members import encode_members, host_of, ingress_endpoints, parse_members
from runtime.errors import ConfigurationError

TEXT = "0,h0:1,h0:2,h0:3,h0:4,h0:5|1,h1:1,h1:2,h1:3,h1:4,h1:5"


def test_members_parse_and_encode_again() -> None:
    members = parse_members(TEXT)
    assert [member.id for member in members] == [0, 1]
    assert members[1].catchup == "h1:4"
    assert encode_members(members) == TEXT


def test_optional_endpoints_are_accepted() -> None:
    assert parse_members("0,h:1,h:2,h:3,h:4,h:5,h:6,h:7")[0].archive == "h:5"


@pytest.mark.parametrize("text", ["", "0,h:1", "x,h:1,h:2,h:3,h:4,h:5", "0,1,2,3,4,5,6,7,8"])
def test_a_malformed_member_is_named(text: str) -> None:
    with pytest.raises(ConfigurationError, match="6 to 8 values"):
        parse_members(text)


def test_ingress_endpoints_are_listed_in_order() -> None:
    assert ingress_endpoints(parse_members(TEXT)) == "0=h0:1,1=h1:1"


def test_host_of_an_ipv6_endpoint_keeps_its_brackets() -> None:
    assert host_of("[::1]:9000") == "[::1]"
