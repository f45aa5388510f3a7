"""The handshake against the vectors of Cacophony (public test data of the Noise community), and what must not pass."""

from __future__ import annotations

import pytest

from ordo.runtime.errors import DecodeError
from ordo.transport.secure.crypto import AES_256_GCM, CHACHA20_POLY1305, Aead, shared_secret
from ordo.transport.secure.noise import Initiator, KeyPair, Keys, Responder

PROLOGUE = bytes.fromhex("4a6f686e2047616c74")
INITIATOR = KeyPair.of(bytes.fromhex("e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1"))
INITIATOR_EPHEMERAL = KeyPair.of(bytes.fromhex("893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a"))
RESPONDER = KeyPair.of(bytes.fromhex("4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893"))
RESPONDER_EPHEMERAL = KeyPair.of(bytes.fromhex("bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b"))
PAYLOADS = [
    "4c756477696720766f6e204d69736573",
    "4d757272617920526f746862617264",
    "462e20412e20486179656b",
    "4361726c204d656e676572",
    "4a65616e2d426170746973746520536179",
]
FIRST_START = "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944"
SECOND_START = "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843"
VECTORS = {
    AES_256_GCM: (
        "669c8640d9e42a3cda2f232f78597ceefb01daa6e3df81181ccce6fc6b5026bf",
        [
            FIRST_START + "4e417bc55c7a8166c993356c1be41ef67818a292426f301556c7f26b21d25ddb"
            "097153891a9a956cff47b83e63ad8d701c1342c209cff1ca5ecd43402762ac249e3bd3a4c0a145fe07cb5dae28ea13a3",
            SECOND_START + "af2ccf9972e22afc67aeafcd25162f7f98c363b7762e3e4cb7d272e39f27a5",
            "66acfc92e3197de166809e6d4d5d003dcc819a84bc3522ca53c9d9",
            "71f89aa6533a6de70b0826864dd75f60806ee40170c16290189eb3",
            "4795a3423550c8bf00386bd496a3e2c76c10669d2a75ab8f79b5094c5412a25705",
        ],
    ),
    CHACHA20_POLY1305: (
        "0b0f68fb0c27e03ce9b97565995ed4838cc0581b762ef72b062f6a546419fad7",
        [
            FIRST_START + "718da798efbcd91528520204f904b9bd6c7413dccdc214d951e15253e39987f1"
            "8146e8cd0873654207148333479d4d16c289f0294b29960a72f48e0b7bba2e89083169825e59642148d492020664ccf7",
            SECOND_START + "5361e70b2ed446e6c9ec387d1d6b3b840f194e373979d241b203c4acafccf5",
            "050e9f3c8fac16b68dbce8f8c4bfbf6617c897f9ada4aa29aa19c8",
            "344233a6cabb7141d80f3da2fedc311d9646bbb0f505afe403a667",
            "62cdeeb172ad7ade7aa7d9e069da5790f12331bfa00177787a1d0810c67dc3b2b4",
        ],
    ),
}


def initiator(suite: int, responder_static: bytes = RESPONDER.public, prologue: bytes = PROLOGUE) -> Initiator:
    return Initiator(suite, INITIATOR, INITIATOR_EPHEMERAL, responder_static, prologue)


@pytest.mark.parametrize("suite", [AES_256_GCM, CHACHA20_POLY1305])
def test_vectors(suite: int) -> None:
    handshake_hash, ciphertexts = VECTORS[suite]
    payloads = [bytes.fromhex(text) for text in PAYLOADS]
    asking, asked = initiator(suite), Responder(suite, RESPONDER, PROLOGUE)
    first = asking.first_message(payloads[0])
    assert first.hex() == ciphertexts[0]
    assert asked.read_static(first) == INITIATOR.public
    assert asked.read_payload() == payloads[0]
    second, keys = asked.second_message(RESPONDER_EPHEMERAL, payloads[1])
    assert second.hex() == ciphertexts[1]
    assert asking.read_second(second) == (payloads[1], keys)
    assert keys.handshake_hash.hex() == handshake_hash
    for index, (key, number) in enumerate([(keys.to_responder, 0), (keys.to_initiator, 0), (keys.to_responder, 1)], 2):
        sealed = Aead(suite, key, is_sealing=True).seal_bytes(number, b"", payloads[index])
        assert sealed.hex() == ciphertexts[index]
        assert Aead(suite, key, is_sealing=False).open_bytes(number, b"", sealed) == payloads[index]


@pytest.mark.parametrize("suite", [AES_256_GCM, CHACHA20_POLY1305])
def test_no_bit_of_a_message_can_be_changed(suite: int) -> None:
    """Not even the highest of the ephemeral key, which X25519 ignores: the hash has it."""
    first = initiator(suite).first_message(b"payload")
    for index in range(len(first) * 8):
        changed = bytearray(first)
        changed[index // 8] ^= 1 << index % 8
        asked = Responder(suite, RESPONDER, PROLOGUE)
        with pytest.raises(DecodeError):
            asked.read_static(bytes(changed))
            asked.read_payload()


def test_a_forged_answer_leaves_the_handshake_as_it_was() -> None:
    asking, asked = initiator(AES_256_GCM), Responder(AES_256_GCM, RESPONDER, PROLOGUE)
    asked.read_static(asking.first_message())
    asked.read_payload()
    second, keys = asked.second_message(RESPONDER_EPHEMERAL, b"index")
    for index in range(len(second)):
        forged = bytearray(second)
        forged[index] ^= 1
        with pytest.raises(DecodeError):
            asking.read_second(bytes(forged))
    with pytest.raises(DecodeError, match="second message of 47 bytes"):
        asking.read_second(second[:47])
    assert asking.read_second(second) == (b"index", keys)


def test_another_prologue_or_another_responder_is_another_handshake() -> None:
    asked = Responder(AES_256_GCM, RESPONDER, PROLOGUE)
    with pytest.raises(DecodeError):
        asked.read_static(initiator(AES_256_GCM, prologue=b"other").first_message())
    with pytest.raises(DecodeError):
        Responder(AES_256_GCM, INITIATOR, PROLOGUE).read_static(initiator(AES_256_GCM).first_message())


def test_who_names_anothers_key_without_having_it_proves_nothing() -> None:
    """The public key of a member is known; a message that names it can be made, but not the payload behind."""
    liar = KeyPair(RESPONDER_EPHEMERAL.secret, INITIATOR.public)
    first = Initiator(AES_256_GCM, liar, INITIATOR_EPHEMERAL, RESPONDER.public, PROLOGUE).first_message()
    asked = Responder(AES_256_GCM, RESPONDER, PROLOGUE)
    assert asked.read_static(first) == INITIATOR.public
    with pytest.raises(DecodeError):
        asked.read_payload()


def test_points_of_low_order_are_refused() -> None:
    for point in (bytes(32), b"\x01" + bytes(31)):
        with pytest.raises(DecodeError, match="low order"):
            shared_secret(INITIATOR.secret, point)


def test_keys_differ_by_direction() -> None:
    asked = Responder(CHACHA20_POLY1305, RESPONDER, PROLOGUE)
    asked.read_static(initiator(CHACHA20_POLY1305).first_message())
    asked.read_payload()
    keys: Keys = asked.second_message(RESPONDER_EPHEMERAL)[1]
    assert keys.to_initiator != keys.to_responder
