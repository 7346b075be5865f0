"""Messages as callers send them."""

from __future__ import annotations

from typing import Any

TIME = "2025-10-29T13:30:00.123456"


def said(role: str, content: Any, timestamp: Any = TIME) -> dict[str, Any]:
    return {"role": role, "content": content, "timestamp": timestamp}


def dialogue(count: int, content: str = "message {}") -> list[dict[str, Any]]:
    """User and assistant taking turns."""
    return [
        said("assistant" if number % 2 else "user", content.format(number))
        for number in range(count)
    ]
