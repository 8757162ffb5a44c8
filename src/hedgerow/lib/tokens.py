"""Random tokens, their hashes and their masks. Nothing here keeps or prints a token."""

import hashlib
import re
import secrets

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

_SECRET = re.compile(r"(phx|phs|pha|phr)_[A-Za-z0-9_-]{8,}")


def random_token(prefix: str, bits: int) -> str:
    """`prefix` and enough base62 characters to carry `bits` random bits."""
    length = -(-bits * 1000 // 5954)  # a base62 character carries 5.954 bits
    return prefix + "".join(secrets.choice(BASE62) for _ in range(length))


def token_hash(token: str) -> str:
    """The only form in which a secret token is stored. Random tokens need no salt and no
    stretching.
    """
    # "surrogatepass" so that no byte a client can send makes hashing fail.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def token_mask(token: str) -> str:
    """What may be shown of a token later: the first and last four characters."""
    return f"{token[:4]}...{token[-4:]}"


def without_secrets(text: str) -> str:
    """`text` with every secret key in it reduced to its prefix, for logs and messages."""
    return _SECRET.sub(lambda found: f"{found[1]}_***", text)
