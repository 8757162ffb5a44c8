"""The texts of mail. All are plain text, and no subject contains what someone has entered."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MailMessage:
    recipient: str
    subject: str
    text: str


def build_reset_message(recipient: str, link: str) -> MailMessage:
    return MailMessage(
        recipient=recipient,
        subject="Choose a new password for Hedgerow",
        text=(
            "Someone asked for a new password for your account. If it was you, choose one here:\n"
            f"\n{link}\n\n"
            "The link works once, within an hour. If it was not you, ignore this mail: your "
            "password stays as it is.\n"
        ),
    )


def build_invite_message(recipient: str, link: str, inviter: str) -> MailMessage:
    return MailMessage(
        recipient=recipient,
        subject="You are invited to Hedgerow",
        text=(
            f"{_flatten(inviter)} invites you to Hedgerow. Join here:\n"
            f"\n{link}\n\n"
            "The link works once, within 7 days. If you do not know the sender, ignore this "
            "mail.\n"
        ),
    )


def build_test_message(recipient: str, address: str) -> MailMessage:
    return MailMessage(
        recipient=recipient,
        subject="Hedgerow can send mail",
        text=f"This is a test of the mail settings of {address}. There is nothing to do.\n",
    )


def _flatten(text: str) -> str:
    """One line, without control characters."""
    return "".join(each if each.isprintable() else " " for each in text)[:300]
