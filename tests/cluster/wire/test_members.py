"""Members and their endpoints (cluster-consensus.md §1.1)."""

import pytest

from ordo.cluster.settings.sections import new_member
from ordo.cluster.wire import ordo_codecs
from ordo.cluster.wire.configuration import NamedConfiguration, decode_configuration
from ordo.cluster.wire.members import encode_members, host_of, ingress_endpoints, parse_member, parse_members
from ordo.runtime.errors import ClusterError, ConfigurationError

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


def test_a_member_that_another_process_tells_of() -> None:
    assert parse_member(1, TEXT.split("|")[1]).consensus == "h1:2"
    for text in (
        TEXT,
        TEXT.split("|")[0],
        "1,h1:1,h1:2,h1:3,h1:4,h1",
        "1,h|x,h1:2,h1:3,h1:4,h1:5",
        "1,h:1,h:2,h:3,h:4,h 5",
    ):
        with pytest.raises(ConfigurationError):
            parse_member(1, text)


def test_a_new_member_is_written_with_one_port_or_with_five_endpoints() -> None:
    assert new_member("3=h3:20000").encode() == "3,h3:20000,h3:20001,h3:20002,h3:20003,h3:20004"
    assert new_member("3=a:1,b:2,c:3,d:4,e:5").encode() == "3,a:1,b:2,c:3,d:4,e:5"
    for text in ("3", "x=h:1", "3=h", "3=h:1,h:2", "3=h:1,h:2,h:3,h:4,h", "=h:1", "3=:1"):
        with pytest.raises(ConfigurationError):
            new_member(text)


def test_a_configuration_event_reads_back_and_has_its_bytes() -> None:
    named = NamedConfiguration(parse_members(TEXT), ())
    encoded = named.encode(4, 1000)
    assert encoded.startswith(bytes.fromhex("1000140085030100" + "0400000000000000" + "e803000000000000"))
    found = ordo_codecs.decode(encoded)
    assert found is not None and found[0] is ordo_codecs.CONFIGURATION_EVENT
    assert decode_configuration(found[1]) == named
    nobody = ordo_codecs.decode(NamedConfiguration((), named.voters).encode(4, 1000))
    assert nobody is not None
    with pytest.raises(ClusterError, match="at least one member must be a voter"):
        decode_configuration(nobody[1])
