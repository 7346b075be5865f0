"""Exact counts with tiktoken, whose data are looked for on this machine before they are fetched."""

from __future__ import annotations

import importlib.util
import os
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from hashlib import sha1
from pathlib import Path

from history_curator.config import suggest_name
from history_curator.errors import ConfigurationError
from history_curator.tokens.base import MessageCounter
from history_curator.tokens.heuristic_counter import estimate_tokens
from history_curator.tokens.models import FAMILIES, ModelFamily, find_family

Encode = Callable[[str], "list[int]"]

ALLOW_DOWNLOAD = "HISTORY_CURATOR_ALLOW_DOWNLOAD"
"""Environment variable; ``0`` forbids fetching a tokenizer from the network."""

_DOWNLOAD_SECONDS = 10.0
ENCODINGS = {
    "cl100k_base": "cl100k_base", "o200k_base": "o200k_base", "o200k_harmony": "o200k_base",
}  # fmt: skip
"""Encoding name to the file it is built from."""

_lock = threading.Lock()
_loaded: dict[str, Encode | None] = {}


class TiktokenCounter(MessageCounter):
    """Counts with a tiktoken encoding, exactly; with a factor for models of other families.

    Takes the name of an encoding or of a model. The encoding is loaded at the first count. Where
    it cannot be had, counts are estimates: `exact` is False, `name` ends in ``estimated``, and one
    warning says so. Special tokens are counted as plain text. The factor multiplies every count;
    by default it is that of the model's family.

    Examples:
        >>> counter = TiktokenCounter("o200k_base")
        >>> counter.count("<|endoftext|>") > 1
        True
    """

    def __init__(self, encoding: str = "o200k_base", *, factor: float | None = None) -> None:
        is_encoding = encoding in ENCODINGS
        family = ModelFamily(encoding, "", encoding) if is_encoding else find_family(encoding)
        if family is None:
            raise ConfigurationError(
                f"counter: {encoding!r} is neither an encoding nor a model of a known family. Fix: "
                f"{suggest_name(encoding, [*ENCODINGS, *(each.name for each in FAMILIES)])} For "
                'others TiktokenCounter("o200k_base", factor=1.2) counts conservatively.'
            )
        self.encoding = family.encoding
        self.model = None if is_encoding else encoding
        factor = family.factor if factor is None else factor
        name = encoding if is_encoding else f"{self.encoding}:{family.name}"
        name += "" if factor == family.factor else f" ×{factor:g}"
        super().__init__(name, factor=factor, tool_factor=family.tool_factor, image=family.image)

    @property
    def exact(self) -> bool:
        """Whether the encoding is at hand; loads it."""
        return load_encoding(self.encoding) is not None

    @property
    def name(self) -> str:
        """A stable name for the arithmetic; ``… estimated`` without the encoding."""
        return self._name if self.exact else f"{self._name} estimated"

    def _count_text(self, text: str) -> int:
        encode = load_encoding(self.encoding)
        return estimate_tokens(text) if encode is None else len(encode(text))


def load_encoding(name: str) -> Encode | None:
    """Return a function from text to tokens, or None (and warn, once) when it cannot be had."""
    with _lock:
        if name not in _loaded:
            _loaded[name] = _load(name)
    return _loaded[name]


def _load(name: str) -> Encode | None:
    url = f"https://openaipublic.blob.core.windows.net/encodings/{ENCODINGS[name]}.tiktoken"
    file = sha1(url.encode(), usedforsecurity=False).hexdigest()
    folder = next((each for each in _candidate_folders() if (each / file).is_file()), None)
    problem = _download(url) if folder is None else None
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    try:
        import tiktoken

        if folder is not None:
            os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
        if problem is None:
            return tiktoken.get_encoding(name).encode_ordinary
    except Exception as error:  # noqa: BLE001 - any failure ends in the same estimates
        problem = f"loading it failed ({type(error).__name__}: {error})"
    finally:
        os.environ.pop("TIKTOKEN_CACHE_DIR", None)
        if before is not None:
            os.environ["TIKTOKEN_CACHE_DIR"] = before
    warnings.warn(
        f"The tokenizer {name!r} is not available: {problem}. Token counts are estimates, and the "
        "counter's name says so. Fix: set TIKTOKEN_CACHE_DIR to a folder that has it, or allow the "
        "download once.",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def _candidate_folders() -> Iterator[Path]:
    """Yield tiktoken's own caches, and the copy that llama-index-core ships."""
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    yield Path(tempfile.gettempdir()) / "data-gym-cache"
    spec = importlib.util.find_spec("llama_index")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(root) / "core" / "_static" / "tiktoken_cache"


def _download(url: str) -> str | None:
    """Fetch a file into tiktoken's cache; return the problem, None when there was none.

    In a thread of its own, because tiktoken sets no timeout and holds a lock while it loads.
    """
    if os.environ.get(ALLOW_DOWNLOAD) == "0":
        return f"no cached copy was found and {ALLOW_DOWNLOAD}=0"
    problem: list[str | None] = [f"no answer within {_DOWNLOAD_SECONDS:.0f} s"]

    def fetch() -> None:
        try:
            from tiktoken.load import read_file_cached

            read_file_cached(url)  # tiktoken checks what it loads
            problem[0] = None
        except Exception as error:  # noqa: BLE001 - reported to the caller, whatever it is
            problem[0] = f"{type(error).__name__}: {error}".splitlines()[0][:200]

    worker = threading.Thread(target=fetch, daemon=True, name="history-curator-encoding")
    worker.start()
    worker.join(_DOWNLOAD_SECONDS)
    return problem[0] and f"no cached copy was found and the download failed ({problem[0]})"
