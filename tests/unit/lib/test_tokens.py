import hashlib
import math
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.lib.tokens import BASE62, generate_token, hash_token, mask_token, redact_secrets
from hedgerow.projects.model import KEY_BITS
from tests.unit.generated import bounded

SECRET = "phx_0123456789abcdefABCDEF"


def entropy_bits(token: str, prefix: str) -> float:
    return len(token.removeprefix(prefix)) * math.log2(len(BASE62))


def test_alphabet_is_base62() -> None:
    assert len(BASE62) == 62
    assert set(BASE62) == set(string.ascii_letters + string.digits)


@pytest.mark.parametrize("bits", [1, 72, 160, 208, 256])
def test_token_has_the_shortest_length_for_its_bits(bits: int) -> None:
    token = generate_token("phx_", bits)
    assert bits <= entropy_bits(token, "phx_") < bits + math.log2(len(BASE62)) + 0.01
    assert token.startswith("phx_")
    assert set(token.removeprefix("phx_")) <= set(BASE62)


def test_keys_have_at_least_160_bits() -> None:
    assert entropy_bits(generate_token("phx_", KEY_BITS), "phx_") >= 160


def test_tokens_use_the_whole_alphabet_and_do_not_repeat() -> None:
    tokens = [generate_token("", 208) for _ in range(200)]
    assert len(set(tokens)) == 200
    assert set("".join(tokens)) == set(BASE62)


def test_hash_is_sha256_of_utf8() -> None:
    assert hash_token("phx_ü") == hashlib.sha256("phx_ü".encode()).hexdigest()


@bounded
@given(st.text(st.characters(codec=None)))
def test_hashing_never_fails(text: str) -> None:
    assert len(hash_token(text)) == 64


def test_lone_surrogates_hash_and_differ() -> None:
    assert hash_token("phx_\ud800") != hash_token("phx_\udfff")


def test_mask_shows_first_and_last_four_characters() -> None:
    assert mask_token(SECRET) == "phx_...CDEF"


@pytest.mark.parametrize("prefix", ["phx", "phs", "pha", "phr"])
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "Bearer {} was refused",
        'personal_api_key={}&limit=1 "{}"',
        "https://example.com/?personal_api_key={}",
        "https://example.com/?q=Bearer%20{}",
        "personal_api_key%3D{}",
        "my_{}",
    ],
)
def test_secret_keys_are_redacted(prefix: str, around: str) -> None:
    secret = f"{prefix}_0123456789abcdefABCDEF"
    shown = redact_secrets(around.format(secret, secret))
    assert "0123456789abcdefABCDEF" not in shown
    assert shown == around.format(f"{prefix}_***", f"{prefix}_***")


def test_public_keys_and_other_text_are_unchanged() -> None:
    text = "phc_0123456789abcdefABCDEF, phx_short, graphx_ and phosphorus"
    assert redact_secrets(text) == text
