"""The options of a curator as pydantic fields, for whatever is a pydantic model."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from history_curator.config._options import OPTIONS


def declared(name: str) -> Any:
    """Return the field of an option: its default and its meaning as declared."""
    option = OPTIONS[name]
    return Field(default=option.default, description=option.doc)


class CuratorFields(BaseModel):
    """What `Curator` takes by name, as far as text can hold it."""

    max_tokens: int | None = declared("max_tokens")
    counter: Any = declared("counter")
    provider: Any = declared("provider")
    compact_to: float | None = declared("compact_to")
    recap: bool = declared("recap")
    retrieve: bool = declared("retrieve")
    cache_bytes: int = declared("cache_bytes")
    reasoning: Literal["strip", "keep", "refuse"] | None = declared("reasoning")
    recall_tool: bool | str = declared("recall_tool")
    mode: Literal["enforce", "shadow"] = declared("mode")
    preserve_last_n: int | None = declared("preserve_last_n")

    @field_validator("*", mode="after")
    @classmethod
    def _check_declared(cls, value: Any, info: ValidationInfo) -> Any:
        name = info.field_name or ""
        wanted = OPTIONS[name].check(value) if name in CuratorFields.model_fields else None
        if wanted is not None:
            raise ValueError(f"should be {wanted}")
        return value
