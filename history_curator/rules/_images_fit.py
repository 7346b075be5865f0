"""P12: images where they may stand, few and small enough."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from history_curator.formats import wire_of
from history_curator.entries import ContentPart, ConversationEntry, MessageRole
from history_curator.rules import _features as has
from history_curator.rules._invariant import (
    TOOL,
    USER,
    Entries,
    Errors,
    Finding,
    Invariant,
    edit,
    remembered,
)
from history_curator.rules._joining import joined_text

_MEDIA = {"image", "audio", "video", "file"}


class ImagesFit(Invariant):
    """Media stand where the wire format has room for them, and images are few and small enough.

    OpenAI refuses images outside the user role; Bedrock takes 20 images of 8000 px; Anthropic
    takes 100, of 8000 px, but of 2000 px once there are more than 20, so that the 21st image
    makes an old large one fatal.

    Repair: ``[image removed]`` in place of the image, the oldest first. An image of unknown size
    is taken to fit.

    Args:
        max_images: images in the whole conversation.
        max_side: pixels of the longer side.
        crowd: above this many images `crowded_side` holds instead of `max_side`.
        crowded_side: pixels of the longer side in a crowd.
        roles: who may show media.
        wired: also a result whose format has room for media: all but Chat Completions have. What
            a Gemini model itself put out is sent back to it.

    Examples:
        >>> from history_curator.entries import ContentPart, ConversationEntry, MessageRole
        >>> picture = ContentPart("image", width=9000, height=10)
        >>> shown = ConversationEntry(MessageRole.USER, parts=(picture,))
        >>> ImagesFit().repair([shown])[0].content
        '[image removed]'
    """

    code = "P12"
    about = has.PARTS
    errors: ClassVar[Errors] = {
        "role": {
            "openai": "Image URLs are only allowed for messages with role 'user'",
            "bedrock": "images are only supported in messages with the user role",
        },
        "count": {
            "anthropic": "Too many images",
            "bedrock": "too many images: at most 20 are supported",
        },
        "size": {
            "anthropic": "At least one of the image dimensions exceed max allowed size for "
            "many-image requests: 2000 pixels",
        },
    }

    def __init__(
        self,
        *,
        max_images: int = 20,
        max_side: int = 2000,
        crowd: int | None = None,
        crowded_side: int | None = None,
        roles: Collection[MessageRole] = (USER,),
        wired: bool = False,
    ) -> None:
        self.max_images = max_images
        self.max_side = max_side
        self.crowd = crowd
        self.crowded_side = crowded_side
        self.roles = frozenset(roles)
        self.wired = wired

    def look_at(self, entry: ConversationEntry) -> list[tuple[str, str]]:
        """Look for media in the wrong role."""
        if entry.parts is None or not entry.has_media or self._may_show(entry):
            return []
        return [
            ("role", f"{part.kind} in a {entry.role.value} message")
            for part in entry.parts
            if part.kind in _MEDIA
        ]

    def _may_show(self, entry: ConversationEntry) -> bool:
        if entry.role in self.roles:
            return True
        if not self.wired:
            return False
        wire = wire_of(entry)
        return wire == "gemini" or (entry.role is TOOL and wire not in (None, "chat"))

    def look_across(self, entries: Entries) -> list[Finding]:
        """Count and measure images."""
        return [(index, kind, message) for index, _, kind, message in self._excess(entries)]

    def repair(self, entries: Entries) -> list[ConversationEntry]:
        """Replace what does not fit by a line of text."""
        out = [
            _without(
                entry,
                frozenset(at for at, part in enumerate(entry.parts or ()) if part.kind in _MEDIA),
            )
            if self.look_at(entry)
            else entry
            for entry in entries
        ]
        gone: dict[int, set[int]] = {}
        for index, place, _, _ in self._excess(out):
            gone.setdefault(index, set()).add(place)
        for index, places in gone.items():
            out[index] = _without(out[index], frozenset(places))
        return out

    def _excess(self, entries: Entries) -> list[tuple[int, int, str, str]]:
        images = [
            (index, place, part)
            for index, entry in enumerate(entries)
            if entry.parts and self._may_show(entry)
            for place, part in enumerate(entry.parts)
            if part.kind == "image"
        ]
        found: list[tuple[int, int, str, str]] = []
        surplus = max(0, len(images) - self.max_images)
        for index, place, _ in images[:surplus]:
            message = f"{len(images)} images, {self.max_images} are taken"
            found.append((index, place, "count", message))
        left = images[surplus:]
        side = self.max_side
        if self.crowd is not None and self.crowded_side is not None and len(left) > self.crowd:
            side = self.crowded_side
        for index, place, part in left:
            longer = max(part.width or 0, part.height or 0)
            if longer > side:
                found.append((index, place, "size", f"an image of {longer} px, {side} are taken"))
        return found


def _without(entry: ConversationEntry, places: frozenset[int]) -> ConversationEntry:
    def make() -> ConversationEntry:
        parts = tuple(
            ContentPart("text", f"[{part.kind} removed]") if at in places else part
            for at, part in enumerate(entry.parts or ())
        )
        return edit(
            entry,
            parts=parts,
            content=joined_text(parts),
            action=entry.action or "repaired",
            reason="images beyond what the provider takes, in number, size or role",
        )

    return remembered(entry, ("without", places), make)
