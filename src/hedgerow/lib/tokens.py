"""Random tokens, their hashes and their masks. Nothing here keeps or prints a token."""

import hashlib
import re
import secrets

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

_SECRET = re.compile(r"(phx|phs|pha|phr|hgs|hgl|hgi)_[A-Za-z0-9_-]{8,}")


def generate_token(prefix: str, bits: int) -> str:
    """Generate `prefix` followed by enough base62 characters for `bits` random bits."""
    length = -(-bits * 1000 // 5954)  # a base62 character carries 5.954 bits
    return prefix + "".join(secrets.choice(BASE62) for _ in range(length))


def hash_token(token: str) -> str:
    """Hash a secret token for storage. Random tokens need no salt and no key stretching."""
    # "surrogatepass" so that no byte a client can send makes hashing fail.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def mask_token(token: str) -> str:
    """Return the first and last four characters, which may be shown later."""
    return f"{token[:4]}...{token[-4:]}"


def redact_secrets(text: str) -> str:
    """Reduce every secret key in the text to its prefix, for logs and messages."""
    return _SECRET.sub(lambda found: f"{found[1]}_***", text)
